"""Two chat models and an embedding model in one engine under load: shares by priority, and critical requests first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon import Engine, Priority, SamplingParams
from antiphon.runtime.frontend.streams import Stream
from antiphon.runtime.loading.loading import LoadedModel, load_model
from support.models.tiny_model import write_bert

LONG = SamplingParams(max_tokens=1500, ignore_eos=True)


@pytest.fixture
def engine(tiny_loaded: LoadedModel, tmp_path: Path):
    first, second = replace(tiny_loaded, name="first"), replace(tiny_loaded, name="second")
    bert = load_model(str(write_bert(tmp_path)))
    options = dict(kv_bytes=32 << 20, key_type="fp32", value_type="fp32", policy="priority", record_requests=True)
    with Engine(first, second, bert, **options) as engine:  # type: ignore[arg-type]
        yield engine


def start(engine: Engine, model: str, count: int, priority: Priority = Priority.NORMAL) -> list[Stream]:
    streams = [engine.stream([index, 2, 3], LONG, model=model, priority=priority) for index in range(count)]
    for stream in streams:
        next(stream)
    return streams


def test_time_is_shared_by_priority(engine: Engine) -> None:
    streams = start(engine, "first", 4) + start(engine, "second", 4, Priority.HIGH)
    steps = engine._core.telemetry.steps
    begun = len(steps)
    while len(steps) < begun + 400:
        vectors = engine.embed(["hello there"] * 8, model="bert")
        assert len(vectors) == 8
    recent = list(steps)[begun:]
    for stream in streams:
        stream.close()
    seconds: Counter[str] = Counter()
    for record in recent:
        seconds[record.model] += record.seconds  # type: ignore[assignment]
    assert all(seconds[name] > 0 for name in ("first", "second", "bert"))
    # A step that the machine held up is made good by later ones, for which there may have been no time yet.
    assert sum(record.model == "first" for record in recent) >= 3
    longest = max(record.seconds for record in recent if record.model == "first")
    # A high request weighs four times a normal one; what is measured is noisy, so ask for half of that.
    assert seconds["second"] > 2 * (seconds["first"] - longest)


def test_a_critical_request_waits_for_one_step_of_another_model_at_most(engine: Engine) -> None:
    streams = start(engine, "first", 6, Priority.HIGH)
    for _ in range(10):
        critical = engine.stream([9, 8, 7], SamplingParams(max_tokens=1), model="second", priority=Priority.CRITICAL)
        critical.wait()
        marks = critical.output.request.marks
        steps = list(engine._core.telemetry.steps)
        between = [s for s in steps if s.model != "second" and marks.arrived < s.start < marks.first_scheduled]
        assert len(between) <= 1
    for stream in streams:
        stream.close()
