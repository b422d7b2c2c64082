"""What was recorded: figures of steps and requests, and a trace whose lanes nest."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from antiphon.engine.request import TimeMarks
from support.engine.engine_world import ModelSetup, World, with_config

SETUP = with_config(ModelSetup(), max_running=4, chunk_tokens=8)


def busy_world() -> World:
    world = World(64)
    world.core.record_requests = True
    world.add_model("chat", SETUP)
    for length in (5, 30, 12):
        world.add("chat", list(range(length)), 6)
    return world


def test_steps_tell_tokens_by_phase_and_blocks() -> None:
    world = busy_world()
    world.drain()
    steps = list(world.core.telemetry.steps)
    assert [step.index for step in steps] == list(range(len(steps)))
    assert sum(step.prefill_tokens for step in steps) + sum(step.decode_tokens for step in steps) == 47 + 3 * 5
    assert steps[0].prefill_tokens == 5 + 8 + 8 and steps[0].decode_tokens == 0 and steps[0].running == 3
    assert all(step.seconds == pytest.approx(sum(step.parts.values())) for step in steps)
    assert {"plan", "run", "commit"} == set(steps[0].parts)
    assert steps[-1].blocks_owned == 0 and steps[-1].blocks_cached > 0
    assert max(step.blocks_owned for step in steps) >= 8


def test_a_request_tells_where_its_time_went() -> None:
    world = busy_world()
    request = world.requests[1]
    world.drain()
    record = next(r for r in world.core.telemetry.requests if r.id == request.id)
    assert record.prompt_tokens == 30 and record.output_tokens == 6 and record.finish_reason == "length"
    assert record.arrived <= record.first_scheduled < record.first_token < record.finished
    marks = request.marks
    assert len(marks.inter_token_gaps) == 5
    assert record.time_per_output_token == pytest.approx(sum(marks.inter_token_gaps) / 5)
    assert record.time_to_first_token == pytest.approx(marks.tokens[0] - marks.arrived)
    assert record.end_to_end == pytest.approx(marks.finished - marks.arrived)


def test_marks_of_what_has_not_happened_are_zero() -> None:
    marks = TimeMarks(arrived=5.0)
    assert marks.queue_wait == marks.time_to_first_token == marks.time_per_output_token == marks.end_to_end == 0.0
    assert marks.inter_token_gaps == []


@pytest.mark.parametrize("depth", [1, 2])
def test_the_trace_is_json_with_phases_that_nest(tmp_path: Path, depth: int) -> None:
    world = World(64)
    world.core.record_requests = True
    setup = ModelSetup(config=SETUP.config, depth=depth, lazy=depth > 1)
    world.add_model("chat", setup)
    requests = [world.add("chat", [length] * length, 6) for length in (5, 30, 12, 3, 9)]
    world.drain()
    path = tmp_path / "trace.json"
    world.core.telemetry.write_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert all(type(event["pid"]) is int and type(event["tid"]) is int for event in events)
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    processes = {pid: name for (kind, pid, _), name in names.items() if kind == "process_name"}
    assert sorted(processes.values()) == ["models", "requests"]
    lanes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lane = names["thread_name", event["pid"], event["tid"]]
            assert processes[event["pid"]] == ("models" if lane == "chat" else "requests")
            lanes[lane].append(event)
    for request in requests:
        lane = lanes[request.id]
        phases = {event["name"] for event in lane}
        assert phases >= {"request", "prefill", "decode"}
        assert sum(e["args"]["tokens"] for e in lane if e["name"] in ("prefill", "decode")) >= request.num_tokens - 1
        whole = next(event for event in lane if event["name"] == "request")
        for event in lane:
            assert event["ts"] >= whole["ts"] - 0.2
            if depth == 1:  # a step that overran the end of a request ends after it
                assert event["ts"] + event["dur"] <= whole["ts"] + whole["dur"] + 0.2
    assert "queued" in [event["name"] for event in lanes[requests[4].id]], "it waited for a row"
    steps = sorted((event for event in lanes["chat"] if event["name"] == "step"), key=lambda event: event["ts"])
    for earlier, later in pairwise(steps):
        assert earlier["ts"] + earlier["dur"] <= later["ts"] + 0.2, "steps of a model do not overlap"


def test_the_ring_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.engine.telemetry.MAX_STEPS", 10)
    world = World(64)
    world.add_model("chat", SETUP)
    world.add("chat", [1], 40)
    world.drain()
    assert len(world.core.telemetry.steps) == 10 and world.core.telemetry.num_steps == 40
