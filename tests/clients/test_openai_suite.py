"""openai-python's own tests of its resources, of the installed version, against a real server.

A test that fails must be in `EXPLAINED`, and at least 95 % must pass.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.fetching.source_archives import download_source
from support.models.tiny_model import write_folder
from support.server.http_server import TOOL_TEMPLATE, RunningServer, running_server

FILES = [
    "test_completions.py", "test_embeddings.py", "test_models.py", "test_responses.py", "test_files.py",
    "test_batches.py", "test_conversations.py", "responses/test_input_items.py", "responses/test_input_tokens.py",
    "conversations/test_items.py", "chat/test_completions.py", "chat/completions/test_messages.py",
    "audio/test_speech.py", "audio/test_transcriptions.py", "audio/test_translations.py",
]  # fmt: skip
LEAST_SHARE = 0.95
#: The names that the tests use, served by models of ours.
CHAT_NAMES = ("gpt-6-astra", "gpt-3.5-turbo-instruct", "gpt-4o-mini", "auto", "model")
ENCODER_NAMES = ("text-embedding-3-small",)
#: Loaded on use.
SLOW_CHAT = "smollm2-135m"
ENCODER, TRANSCRIBER, SPEAKER = "all-minilm-l6-v2", "whisper-base", "hibari-6m"
ADMIN_KEY = "the-admin-key"

#: Tests that cannot pass, as patterns of their names, with the reason.
EXPLAINED = {
    r"chat\.test_completions.*create_with_all_params": "asks for moderation and a web search, which there are none of",
    r"test_responses.*create_with_all_params": "asks for moderation, a stored prompt and compaction by the server",
    r"test_input_tokens.*count_with_all_params": "names a conversation and a response that is not of it",
    r"api_resources\.test_completions.*create_with_all_params": "asks for echo and suffix, which exclude each other",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in (SLOW_CHAT, ENCODER, TRANSCRIBER, SPEAKER):
        model_path(name)
    folder = tmp_path_factory.mktemp("files")
    chat = write_folder(tmp_path_factory.mktemp("served") / "tiny-chat", chat_template=TOOL_TEMPLATE)
    models = [ModelSpec.of(str(chat)), *(ModelSpec.of(name) for name in (ENCODER, TRANSCRIBER, SPEAKER))]
    aliases = dict.fromkeys(CHAT_NAMES, models[0].name) | dict.fromkeys(ENCODER_NAMES, ENCODER)
    aliases |= {"gpt-4o-transcribe": TRANSCRIBER, "whisper-1": TRANSCRIBER, "tts-1": SPEAKER}
    config = ServerConfig(
        models=tuple(models),
        aliases=aliases,
        admin_keys=KeyRing([ADMIN_KEY]),
        files_dir=folder,
        offline=True,
    )
    with running_server(config, {"kv_bytes": 256 << 20}) as running:
        yield running


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked tests, with fixtures of ours."""
    folder = tmp_path_factory.mktemp("openai")
    version = importlib.metadata.version("openai")
    archive = download_source(f"openai=={version}", "hatchling.build", folder)
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    tests = folder / f"openai-{version}" / "tests"
    for source, name in (("suite_conftest.py", "conftest.py"), ("mapping.py", "mapping.py")):
        shutil.copy(Path(__file__).parent / "openai_suite" / source, tests / name)
    return tests


def results(report: Path) -> dict[str, str | None]:
    """The message of each test that failed, None for one that passed; skipped ones are left out."""
    found: dict[str, str | None] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            bad = [entry for kind in ("failure", "error") for entry in case.findall(kind)]
            found[f"{case.get('classname')}::{case.get('name')}"] = bad[0].get("message", "") if bad else None
    return found


def run_tests(server: RunningServer, suite: Path, tmp_path: Path, *selection: str) -> None:
    """Run the client's own tests and check that no test fails without a known reason."""
    report = tmp_path / "report.xml"
    files = [str(suite / "api_resources" / name) for name in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["--rootdir", str(suite), f"--junitxml={report}", "-o", "asyncio_mode=auto"]
    command += ["-o", "asyncio_default_fixture_loop_scope=session", *files, *selection]
    path = os.pathsep.join([str(suite), str(suite.parent)])
    environment = os.environ | {"TEST_API_BASE_URL": f"{server.url}/v1", "PYTHONPATH": path}
    ran = subprocess.run(command, cwd=suite.parent, env=environment, capture_output=True, text=True, timeout=900)
    assert report.exists(), ran.stdout[-3000:] + ran.stderr[-3000:]
    outcomes = results(report)
    failed = {name: message for name, message in outcomes.items() if message is not None}
    share = 1 - len(failed) / len(outcomes)
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} tests pass ({share:.1%})")
    unexplained = {n: m for n, m in failed.items() if not any(re.search(pattern, n) for pattern in EXPLAINED)}
    assert not unexplained, "\n".join(f"{name}: {message[:400]}" for name, message in unexplained.items())
    assert share >= LEAST_SHARE


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.long("the client's own tests run in a process of their own")
def test_the_synchronous_client_that_checks_answers_strictly(
    server: RunningServer, suite: Path, tmp_path: Path
) -> None:
    run_tests(server, suite, tmp_path, "-k", "strict and not Async")


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_every_client(server: RunningServer, suite: Path, tmp_path: Path) -> None:
    run_tests(server, suite, tmp_path)
