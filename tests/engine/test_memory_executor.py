"""The checker checks: each kind of mistake in the bookkeeping is noticed by the simulated memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.kv.pool import BlockPool
from antiphon.engine.plan import BlockCopy, StepPlan, SwapIn
from antiphon.engine.request import Request, RequestState
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from support.engine.engine_world import ModelSetup, World, with_config

WINDOWED = ModelSetup((GroupSpec("full", 256), GroupSpec("window", 256, window=6, sink_tokens=3)), 4)


def run(setup: ModelSetup, num_slabs: int = 6) -> list[Request]:
    """Forks, shared prefixes and preemption; the requests after the end."""
    world = World(num_slabs, checks=False)
    world.add_model("m", setup)
    shared = list(range(18))
    for index in range(4):
        request = world.add("m", [*shared, index], 14, seed=10 * index)
        world.add_forks(request, 1)
    requests = list(world.requests)
    for _ in range(600):
        if not world.core.step():
            break
    return requests


def without(kind: type, plan_of: Callable[[Scheduler, float], StepPlan]) -> Callable[[Scheduler, float], StepPlan]:
    def plan(scheduler: Scheduler, now: float) -> StepPlan:
        made = plan_of(scheduler, now)
        for index, move in enumerate(made.moves):
            if isinstance(move, kind):
                made.moves[index] = BlockCopy(0, 0, 256)
        return made

    return plan


def sabotage(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "no copy before writing":
        monkeypatch.setattr(Scheduler, "plan", without(BlockCopy, Scheduler.plan))
    elif name == "nothing swapped in":
        monkeypatch.setattr(Scheduler, "plan", without(SwapIn, Scheduler.plan))
    elif name == "window one too short":
        original = KVManager._first_needed
        monkeypatch.setattr(KVManager, "_first_needed", lambda self, group, n: original(self, group, n + 4))
    elif name == "no sinks":
        monkeypatch.setattr(KVManager, "_num_sink_blocks", lambda self, group: 0)
    elif name == "tokens not compared":
        monkeypatch.setattr("antiphon.engine.kv.manager.chain", lambda parent, tokens: b"same")
        monkeypatch.setattr(BlockPool, "find", lambda self, digest, tokens: self._by_digest.get(digest))
    elif name == "table not updated":
        original_grow = KVManager.grow

        def grow(self: KVManager, request: Request, count: int, plan: StepPlan, may_pack: bool = True) -> bool:
            done = original_grow(self, request, count, plan, may_pack)
            plan.table_updates.clear()
            return done

        monkeypatch.setattr(KVManager, "grow", grow)


SABOTAGES = {
    "no copy before writing": WINDOWED,
    "nothing swapped in": with_config(WINDOWED, preemption=Preemption.SWAP),
    "window one too short": WINDOWED,
    "no sinks": WINDOWED,
    "tokens not compared": WINDOWED,
    "table not updated": WINDOWED,
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = replace(SABOTAGES[name], config=replace(SABOTAGES[name].config, max_running=4, chunk_tokens=7))
    honest = run(setup)
    assert all(request.state is RequestState.FINISHED for request in honest)
    sabotage(name, monkeypatch)
    errors = [request.error or "" for request in run(setup) if request.state is RequestState.FAILED]
    assert errors, "not noticed"
    assert all("Error: " in error for error in errors)


def test_a_pipelined_step_reads_the_newest_token_from_its_row_and_overruns_are_discarded() -> None:
    """With two steps in flight, a request that ends by a stop token computes one token too many, which is discarded."""
    outputs, computed = [], []
    for depth in (1, 2, 3):
        world = World(64)
        config = SchedulerConfig(max_running=4, chunk_tokens=8)
        model = world.add_model("m", ModelSetup(config=config, depth=depth, lazy=depth > 1))
        requests = [world.add("m", [index] * 9, 200, stop_ids=frozenset({1, 2, 3})) for index in range(6)]
        world.drain()
        world.check_outputs()
        outputs.append([request.output for request in requests])
        computed.append(model.executor.counters.tokens)
        assert all(request.output[-1] in (1, 2, 3) for request in requests)
    assert outputs[0] == outputs[1] == outputs[2]
    assert computed[0] < computed[1] < computed[2]
