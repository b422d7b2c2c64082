"""Recommendations: the best model that fits a memory, with and without the hub."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.runtime.analysis.recommended import TASKS, candidates, needed_bytes, recommended
from antiphon.runtime.loading import memory_budget
from antiphon.runtime.loading.memory_budget import DEFAULT_KV_BYTES
from antiphon.weights.catalog.catalog import Task, catalog

PLATFORMS = Path(__file__).parents[3] / "docs" / "platforms.md"


def test_no_measured_peak_exceeds_the_needed_memory() -> None:
    table = PLATFORMS.read_text(encoding="utf-8").partition("## Memory")[2].partition("\n## ")[0]
    measured = dict(re.findall(r"^\| `([^`]+)` \| ([\d.]+) GB \|$", table, re.MULTILINE))
    assert len(measured) > 4
    for name, gigabytes in measured.items():
        assert needed_bytes(catalog()[name]) >= float(gigabytes) * 1e9, name


def test_the_needed_memory_follows_from_files_and_cache() -> None:
    chat, embedder = catalog()["qwen3-8b"], catalog()["bge-base-en-v1.5"]
    assert chat.size + DEFAULT_KV_BYTES < needed_bytes(chat) < 2 * chat.size
    assert embedder.size < needed_bytes(embedder) < 2 * embedder.size + DEFAULT_KV_BYTES // 2


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("reachable", [True, False, None])
def test_the_first_candidate_that_fits_is_recommended(task: Task, reachable: bool | None) -> None:
    ordered = candidates(task, reachable)
    assert ordered and {entry.task for entry in ordered} == {task}
    for memory in (10**7, *(needed_bytes(entry) for entry in ordered), 10**12):
        fitting = [entry for entry in ordered if needed_bytes(entry) <= memory]
        assert recommended(task, memory, reachable) is (fitting[0] if fitting else None)


@pytest.mark.parametrize("task", TASKS)
def test_mirrored_models_alone_are_recommended_without_the_hub(task: Task) -> None:
    assert not any(entry.needs_hub for entry in candidates(task, False))
    assert candidates(task, None) == candidates(task, True)
    mirrored = [entry.size for entry in candidates(task, False)]
    assert mirrored == sorted(mirrored, reverse=True)


def test_a_downloaded_model_needs_no_hub() -> None:
    names = [entry.name for entry in candidates("chat", False, here={"gemma-3-1b"})]
    assert names[0] == "gemma-3-1b" and "qwen3-8b" not in names


def test_the_machine_s_own_memory_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "machine_bytes", lambda: 4 * 10**9)
    found = recommended("chat")
    assert found is not None and found is recommended("chat", int(4e9 * memory_budget.SHARE))
    assert needed_bytes(found) <= 3.2e9 < needed_bytes(catalog()["qwen3-8b"])
