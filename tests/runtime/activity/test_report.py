"""Reports of a simulated engine: what happened is in them once, and nothing that a request says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.engine.scheduler_config import Preemption
from antiphon.engine.telemetry import MAX_STEPS as KEPT_STEPS
from antiphon.runtime.activity.gaps import PER_DECADE, SHORTEST, GapCounts, bucket
from antiphon.runtime.activity.report import MAX_NEW_STEPS, MAX_STEPS, ActivityReport
from antiphon.runtime.activity.reporter import encode
from antiphon.runtime.activity.rows import REQUEST_COLUMNS, STEP_COLUMNS
from antiphon.runtime.activity.sample import ActivitySampler
from support.engine.engine_world import ModelSetup, World, with_config

SETUP = with_config(ModelSetup(), max_running=4, chunk_tokens=8)


class Watched:
    """A world, its sampler and its report."""

    def __init__(self, num_slabs: int = 64, setup: ModelSetup = SETUP) -> None:
        self.world = World(num_slabs)
        self.world.add_model("chat", setup)
        self.sampler = ActivitySampler(self.world.core)
        self.report = ActivityReport()

    def news(self, **options: Any) -> dict[str, Any]:
        """As it travels."""
        made = self.report.update([self.sampler.take(with_caches=True)], with_caches=True, **options)
        decoded: dict[str, Any] = json.loads(encode(made))
        return decoded


def steps(news: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(STEP_COLUMNS, row, strict=True)) for row in news.get("steps", [])]


def requests(news: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row[0]: dict(zip(REQUEST_COLUMNS, row, strict=True)) for row in news.get("requests", [])}


def test_steps_have_their_kind_their_parts_and_come_once() -> None:
    watched = Watched()
    world = watched.world
    world.add("chat", list(range(20)), 6)
    world.core.step()
    world.add("chat", list(range(50, 55)), 6)
    world.drain()
    found = steps(watched.news())
    assert [step["index"] for step in found] == list(range(world.core.telemetry.num_steps))
    assert {step["kind"] for step in found} == {"prefill", "mixed", "decode"}
    first = found[0]
    assert first["prefills"] == 1 and first["prefill_tokens"] == 8 and first["decodes"] == 0 and first["running"] == 1
    assert all(step["kind"] == "mixed" for step in found if step["prefills"] and step["decodes"])
    recorded = world.core.telemetry.steps
    for step, own in zip(found, recorded, strict=True):
        assert step["microseconds"] == pytest.approx(own.seconds * 1e6, abs=1)
        assert sum(step[part] for part in ("plan", "build", "run", "sample", "commit")) == pytest.approx(
            step["microseconds"], abs=3
        )
    assert "steps" not in watched.news() and not watched.sampler.has_news()
    assert len(watched.report.snapshot()["steps"]) == len(found)


def test_the_life_of_a_request() -> None:
    watched = Watched(setup=with_config(ModelSetup(), max_running=1, chunk_tokens=8))
    world = watched.world
    first, second = world.add("chat", list(range(12)), 4), world.add("chat", [1, 2, 3], 2)
    arrived = requests(watched.news())
    assert {row["state"] for row in arrived.values()} == {"waiting"} and arrived[first.id]["first_scheduled"] is None
    assert watched.sampler.has_news() is False
    world.core.step()
    news = watched.news()
    assert requests(news)[first.id]["state"] == "running" and second.id not in requests(news)
    assert news["queues"] == {"chat": [1, 1]}
    world.core.step()
    token = requests(watched.news())[first.id]
    assert token["first_token"] == pytest.approx(first.marks.tokens[0]) and token["output_tokens"] == 1
    world.drain()
    ended = requests(watched.news())
    assert ended[first.id]["state"] == ended[second.id]["state"] == "finished"
    row = ended[first.id]
    assert row["prompt_tokens"] == 12 and row["output_tokens"] == 4 and row["finish_reason"] == "length"
    assert row["arrived"] <= row["first_scheduled"] < row["first_token"] < row["finished"]
    assert row["time_per_output_token"] == pytest.approx(first.marks.time_per_output_token, abs=1e-6)
    known = requests(watched.report.snapshot())
    assert known[first.id] == row and known[second.id]["task"] == "generate"


def test_token_counts_come_only_when_asked_for() -> None:
    watched = Watched()
    request = watched.world.add("chat", [1, 2, 3], 50)
    watched.world.core.step()
    watched.news()
    watched.world.core.step()
    assert "requests" not in watched.news(with_counts=False)
    assert requests(watched.news(with_counts=True))[request.id]["output_tokens"] == 2


@pytest.mark.parametrize(("preemption", "state"), [(Preemption.RECOMPUTE, "preempted"), (Preemption.SWAP, "swapped")])
def test_a_request_that_waits_again(preemption: Preemption, state: str) -> None:
    setup = with_config(ModelSetup(), max_running=2, chunk_tokens=64, preemption=preemption, swap_bytes=1 << 20)
    watched = Watched(2, setup)
    world = watched.world
    for start in (0, 100):
        world.add("chat", list(range(start, start + 12)), 16)
    states: set[str] = set()
    preemptions = 0
    for _ in range(60):
        world.core.step()
        for row in requests(watched.news()).values():
            states.add(row["state"])
            preemptions = max(preemptions, row["preemptions"])
    assert state in states and preemptions > 0


def test_a_cancelled_request_is_aborted() -> None:
    watched = Watched()
    request = watched.world.add("chat", [1, 2, 3], 50)
    watched.world.core.step()
    watched.news()
    watched.world.cancel(request)
    row = requests(watched.news())[request.id]
    assert row["state"] == "aborted" and row["finish_reason"] == "cancelled"
    assert not watched.report._live


def test_models_come_and_go() -> None:
    watched = Watched()
    assert watched.news()["models"] == [{"name": "chat", "role": "decoder", "device": "cpu"}]
    assert "models" not in watched.news()
    watched.world.add_model("other", SETUP)
    assert watched.sampler.has_news()
    news = watched.news()
    assert [model["name"] for model in news["models"]] == ["chat", "other"] and news["queues"]["other"] == [0, 0]
    watched.world.unload("chat")
    watched.news()
    assert {pool["model"] for pool in watched.report.snapshot()["cache"]} == {"other"}


def test_one_shot_requests_are_named_by_the_role_of_their_part() -> None:
    watched = Watched()
    watched.world.core.slots["chat"].role = "encoder"
    watched.world.add("chat", [1, 2], 2)
    watched.world.drain()
    assert {step["kind"] for step in steps(watched.news())} == {"encoder"}


def test_gaps_are_counted_once_each() -> None:
    watched = Watched()
    request = watched.world.add("chat", [1, 2, 3], 30)
    counted: list[list[int]] = []
    for _ in range(10):
        watched.world.core.step()
        counted += watched.news().get("gaps", {}).get("chat", [])
    watched.world.drain()
    counted += watched.news()["gaps"]["chat"]
    assert sum(count for _, count in counted) == 29
    shortest = min(request.marks.inter_token_gaps)
    low = SHORTEST * 10 ** (min(index for index, _ in counted) / PER_DECADE)
    assert low <= shortest < low * 10 ** (1 / PER_DECADE)
    assert bucket(0.0) == 0 and bucket(1e9) > bucket(10.0) > bucket(0.01)


def test_gaps_of_a_request_that_was_never_seen_open() -> None:
    watched = Watched()
    watched.world.add("chat", [1, 2, 3], 5)
    watched.world.drain()
    assert sum(count for _, count in watched.news()["gaps"]["chat"]) == 4
    assert GapCounts().take([], []) == {}


def test_what_was_forgotten_is_counted() -> None:
    watched = Watched()
    watched.world.add("chat", [1, 2, 3], 2000)
    watched.news()
    watched.world.drain()
    total = watched.world.core.telemetry.num_steps
    news = watched.news()
    assert len(news["steps"]) == MAX_NEW_STEPS and news["dropped"] == total - MAX_NEW_STEPS
    assert news["steps"][-1][0] == total - 1
    telemetry = watched.world.core.telemetry
    telemetry.num_steps += KEPT_STEPS + 7  # as if so many had come and gone since
    assert watched.sampler.has_news() and watched.news()["dropped"] >= 7 + KEPT_STEPS - MAX_NEW_STEPS


def test_a_snapshot_begins_with_nothing_dropped() -> None:
    """The first sample may have more steps than a report: they are history, which the snapshot has."""
    watched = Watched()
    watched.world.add("chat", [1, 2, 3], MAX_NEW_STEPS + 200)
    watched.world.drain()
    total = watched.world.core.telemetry.num_steps
    assert watched.news()["dropped"] == total - MAX_NEW_STEPS > 0
    snapshot = watched.report.snapshot()
    assert "dropped" not in snapshot and len(snapshot["steps"]) == min(total, MAX_STEPS)


def test_no_token_and_no_text_of_a_request_is_reported() -> None:
    """Prompts and answers are made of numbers that occur nowhere else, and an error quotes what it failed on."""
    watched = Watched()
    world = watched.world
    secret = [987_650_000 + index for index in range(9)]

    def fails(token: int) -> bool:
        raise ValueError(f"the secret word at {token}")

    world.add("chat", secret, 6, cache_salt="a secret salt", content=b"secret content")
    failing = world.add("chat", [*secret, 5], 6, on_token=fails)
    seen = []
    while world.core.has_work:
        world.core.step()
        seen.append(json.dumps(watched.news()))
    seen.append(encode(watched.report.snapshot()).decode())
    assert failing.error is not None and "secret word" in failing.error
    text = "".join(seen)
    assert '"failed"' in text and "secret" not in text and "98765" not in text
