"""Commands that a running server answers print the same as commands that load the model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon import __version__
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.serving.setup.run_file import LocalServer, published
from support.models.tiny_model import write_bert
from support.programs.command_line import Invoke
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

CHAT, EMBEDDING = "smollm2-135m", "all-minilm-l6-v2"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def server(
    servers: ServerPool, tiny_llama: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningServer]:
    """A server that commands find, with tiny models under names of the catalog."""
    models = (ModelSpec(CHAT, str(tiny_llama)), ModelSpec(EMBEDDING, str(encoder)))
    with servers.lease(ServerConfig(models=models, offline=True), {"kv_bytes": 16 << 20}) as running:
        monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
        with published(LocalServer(running.url, os.getpid(), None, version=__version__)):
            yield running


@pytest.mark.parametrize(
    "options",
    [
        ["--temperature", "0"],
        ["--temperature", "3", "--seed", "7", "--top-k", "9"],
        ["--temperature", "3", "--seed", "7", "--n", "2"],
        ["--temperature", "0", "--raw"],
        ["--temperature", "0", "--system", "be brief", "--speculate", "ngram"],
        ["--temperature", "0", "--choice", "yes", "--choice", "no"],
    ],
    ids=" ".join,
)
def test_run(options: list[str], server: RunningServer, tiny_llama: Path, invoke: Invoke) -> None:
    remote = invoke("run", CHAT, "hello", "--max-tokens", "12", *options)
    local = invoke("run", str(tiny_llama), "hello", "--max-tokens", "12", *options)
    assert (remote.code, remote.out) == (local.code, local.out) == (0, local.out)
    assert f"answered by the server at {server.url}" in remote.err and "answered" not in local.err


def test_a_conversation(server: RunningServer, tiny_llama: Path, invoke: Invoke) -> None:
    asked = ("--temperature", "0", "--max-tokens", "8")
    remote = invoke("chat", CHAT, *asked, stdin="hello\nhello\n")
    local = invoke("chat", str(tiny_llama), *asked, stdin="hello\nhello\n")
    assert remote[:2] == local[:2] and len(local.out.splitlines()) == 2 and server.url in remote.err


def test_embed(server: RunningServer, encoder: Path, tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "texts").write_text("\n".join("abc"[: 1 + number % 3] for number in range(130)))
    by_default, named = invoke("embed", str(tmp_path / "texts")), invoke("embed", EMBEDDING, str(tmp_path / "texts"))
    local = invoke("embed", str(encoder), str(tmp_path / "texts"))
    assert by_default.out == named.out == local.out and local.out.count("\n") == 130
    assert re.match(rf"{EMBEDDING}, the default, answered by the server at ", by_default.err)
