"""`antiphon list --recommended`: which models it offers, by memory and by what can be reached."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from antiphon.runtime.analysis.recommended import TASKS, candidates
from antiphon.weights.catalog.catalog import catalog
from support.fetching.registries import local_hub
from support.programs.command_line import Invoke, Outcome, invoker

FILE = b"GGUF" + bytes(1000)
CHAT = "gemma-3-1b"
CHAT_PATH = "ggml-org/gemma-3-1b-it-GGUF/gemma-3-1b-it-Q4_K_M.gguf"


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    has_memory(monkeypatch, 64 * 10**9)
    return invoker(monkeypatch, capfdbinary)


def has_memory(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("antiphon.cli.catalog.recommended.machine_bytes", lambda: size)


def rows(outcome: Outcome) -> dict[str, str]:
    assert outcome.code == 0, outcome.err
    heading, *lines = outcome.out.splitlines()
    assert heading.split() == ["NAME", "FOR", "MEMORY", "DOWNLOAD", "LICENCE", "TRIED"]
    return {line.split()[0]: line for line in lines}


def listing(*arguments: str) -> tuple[str, ...]:
    return ("list", "--recommended", "--device", "cpu", *arguments)


def test_with_the_hub_every_model_of_the_tasks_is_there_the_best_first(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_hub({CHAT_PATH: FILE}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        outcome = invoke(*listing())
        found = rows(outcome)
        assert list(found) == [entry.name for task in TASKS for entry in candidates(task, True)]
        assert [path for _, path, _, _ in server.requests] == ["/"], "the hub is asked once"
        assert found["qwen3-8b"].split()[-6:] == ["8.9", "GB", "5.0", "GB", "Apache-2.0", "no"]
        assert "chat, tools and reasoning" in found["qwen3-8b"]
        assert found["hibari-6m"].split()[-1] == "yes"
        assert "Models for 51.2 GB of this machine's 64.0 GB, the best of each task first:" in outcome.err
        assert "TRIED no: " in outcome.err and "not reachable" not in outcome.err
        assert invoke("pull", CHAT).code == 0
        assert rows(invoke(*listing()))[CHAT].split()[-3:] == ["here", "Gemma", "no"]
    assert CHAT in rows(invoke(*listing("--offline"))), "what is here needs no hub"


@pytest.mark.parametrize("how", ["unreachable", "HF_HUB_OFFLINE", "ANTIPHON_OFFLINE", "--offline"])
def test_without_the_hub_mirrored_models_are_recommended_and_the_reason_is_named(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how.isupper():
        monkeypatch.setenv(how, "1")
    outcome = invoke(*listing(*([how] if how.startswith("--") else [])))
    assert list(rows(outcome)) == [entry.name for task in TASKS for entry in candidates(task, False)]
    reason = {
        "unreachable": "The model hub http://127.0.0.1:9 is not reachable (",
        "HF_HUB_OFFLINE": "HF_HUB_OFFLINE is set, so the model hub is not contacted",
    }.get(how, "Downloads are off")
    (line,) = (line for line in outcome.err.splitlines() if line.startswith(reason))
    assert line.endswith(": only models that are here or in package mirrors are listed.")


def test_models_that_need_more_memory_are_left_out_and_counted(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    has_memory(monkeypatch, 2 * 10**9)
    outcome = invoke(*listing())
    found = rows(outcome)
    assert "smollm2-135m" in found and "qwen2.5-coder-1.5b" not in found
    absent = sum(len(candidates(task, False)) for task in TASKS) - len(found)
    assert f"{absent} more need more memory, tinyllama-1.1b the least: 1.9 GB.\n" in outcome.err


def test_the_free_memory_of_a_gpu_counts_where_auto_is_one(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = SimpleNamespace(hardware="a card")
    card = SimpleNamespace(is_cpu=False, name="cuda:0", limits=limits, free_bytes=lambda: 1_600_000_000)
    monkeypatch.setattr("antiphon.cli.catalog.recommended.has_gpu_driver", lambda: True)
    monkeypatch.setattr("antiphon.ops.Device.parse", lambda name: card)
    outcome = invoke("list", "--recommended")
    assert "Models for the 1.6 GB that are free on cuda:0 (a card), the best of each task first:" in outcome.err
    assert "smollm2-135m" in rows(outcome) and "tinyllama-1.1b" not in rows(outcome)


def test_the_plain_list_shows_recommended_models_only_once_they_are_here(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [name for name, entry in catalog().items() if entry.is_tried]
    assert [line.split()[0] for line in invoke("list").out.splitlines()[1:]] == tried
    with local_hub({CHAT_PATH: FILE}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        assert invoke("pull", CHAT).code == 0
    last = invoke("list").out.splitlines()[-1].split()
    assert last == [CHAT, "chat", "0.0", "MB", "Gemma", "yes"]
    assert invoke("rm", CHAT).out == f"{CHAT}  0.0 MB freed\n"
    assert CHAT not in invoke("list").out
