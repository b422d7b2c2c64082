"""The same world driven by hypothesis, so that a failure shrinks to a few events."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from antiphon.engine.kv.manager import GroupSpec
from antiphon.engine.request import Priority, Request
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.errors import ContextLengthError, OverloadedError
from support.engine.engine_world import ENDING_TOKEN, ModelSetup, World

BLOCK_BYTES = st.sampled_from([256, 512, 1024])


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    window = draw(st.none() | st.integers(1, 12))
    sinks = draw(st.integers(0, 5)) if window is not None else 0
    return GroupSpec("group", draw(BLOCK_BYTES), window, sinks)


configs = st.builds(
    SchedulerConfig,
    max_running=st.integers(1, 4),
    max_waiting=st.just(8),
    max_step_tokens=st.sampled_from([1, 8, 32]),
    chunk_tokens=st.none() | st.sampled_from([1, 3, 8]),
    preemption=st.sampled_from(list(Preemption)),
    swap_bytes=st.sampled_from([0, 4096, 1 << 20]),
)
setups = st.builds(
    ModelSetup,
    groups=st.lists(groups(), min_size=1, max_size=3).map(tuple),
    block_tokens=st.sampled_from([1, 2, 4]),
    config=configs,
    policy=st.sampled_from(["fcfs", "priority", "adaptive"]),
    ageing_seconds=st.none() | st.just(0.05),
    prefix_caching=st.booleans(),
    depth=st.integers(1, 2),
    lazy=st.booleans(),
    max_model_tokens=st.just(48),
)
lengths = st.integers(1, 24)


class EngineMachine(RuleBasedStateMachine):
    requests: Bundle[Request] = Bundle("requests")

    @initialize(num_slabs=st.integers(2, 8), models=st.lists(setups, min_size=1, max_size=2))
    def load(self, num_slabs: int, models: list[ModelSetup]) -> None:
        self.world = World(num_slabs, checks=False)
        for index, setup in enumerate(models):
            self.world.add_model(f"m{index}", setup)

    def name(self, index: int) -> str:
        return list(self.world.models)[index % len(self.world.models)]

    @rule(
        target=requests,
        model=st.integers(0, 1),
        shared=st.integers(0, 16),
        own=lengths,
        max_tokens=lengths,
        seed=st.integers(0, 3),
        priority=st.sampled_from(list(Priority)),
        listens=st.booleans(),
        wait=st.none() | st.floats(0.01, 0.3),
        forks=st.integers(0, 2),
    )
    def arrive(
        self,
        model: int,
        shared: int,
        own: int,
        max_tokens: int,
        seed: int,
        priority: Priority,
        listens: bool,
        wait: float | None,
        forks: int,
    ) -> object:
        prompt = list(range(shared)) + [(7 * seed + index) % 60 for index in range(own)]
        try:
            request = self.world.add(
                self.name(model),
                prompt,
                max_tokens,
                seed,
                priority=priority,
                on_token=(lambda token: token == ENDING_TOKEN) if listens else None,
                deadline=None if wait is None else self.world.clock() + wait,
            )
            return multiple(request, *self.world.add_forks(request, forks))
        except (OverloadedError, ContextLengthError):
            return multiple()

    @rule(request=consumes(requests))
    def cancel(self, request: Request) -> None:
        self.world.cancel(request)

    @rule(count=st.integers(1, 6))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.world.step()
            self.world.check()

    @rule(model=st.integers(0, 1))
    def fail_a_step(self, model: int) -> None:
        self.world.models[self.name(model)].executor.fails_next = True

    @rule(model=st.integers(0, 1), setup=setups)
    def reload(self, model: int, setup: ModelSetup) -> None:
        name = self.name(model)
        self.world.unload(name)
        self.world.add_model(name, setup)

    @invariant()
    def the_state_is_consistent(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for model in self.world.models.values():
            model.executor.fails_next = False
        self.world.drain()
        self.world.check_outputs()
        self.world.check_drained()
        self.world.close()


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
