"""Random traffic on random models in simulated memory: no output ever changes, and the state is always consistent."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from support.engine.engine_world import Traffic

#: An event is something that happens to a request: it arrives, is rejected, computes in a step, is preempted, ends, …
EVENTS = (
    "arrivals", "refusals", "overloads", "forks", "step entries", "preemptions", "swaps", "cancels", "failing steps",
    "unloads", "late plans", "ended: stop", "ended: length", "ended: deadline", "ended: failed", "ended: cancelled",
)  # fmt: skip


def fuzz(seed: int, num_events: int) -> Counter[str]:
    """One world from beginning to end, with the integrity of everything checked after every event."""
    traffic = Traffic(random.Random(seed))
    for _ in range(num_events):
        traffic.event()
    traffic.finish()
    return traffic.world.events


def count(total: Counter[str]) -> int:
    return sum(total[name] for name in EVENTS)


@pytest.mark.long("thirty random worlds of requests")
def test_random_traffic_leaves_every_output_and_the_state_right() -> None:
    total: Counter[str] = Counter()
    for seed in range(30):
        total += fuzz(seed, 250)
    for name in EVENTS:
        assert total[name], f"the traffic has no {name}"
    assert total["integrity checks"] > 5_000
    assert count(total) > 10_000


@pytest.mark.soak
def test_a_million_events() -> None:
    total: Counter[str] = Counter()
    seed = random.SystemRandom().randrange(1 << 40)
    while count(total) < 1_000_000:
        total += fuzz(seed, 500)
        seed += 1
    for name, number in sorted(total.items()):
        print(f"  {name:20} {number:>10,}")
    assert total["integrity checks"] >= total["steps"]
