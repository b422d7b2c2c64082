"""Engine in simulated memory with random models and traffic, and with a known correct answer for every request."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from antiphon.engine.core import EngineCore
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.plan import StepPlan
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import FinishReason, Priority, Request, RequestState
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.errors import ContextLengthError, OverloadedError
from support.engine.memory_executor import VOCABULARY, MemoryDevice, MemoryExecutor, expected_output

#: Token that ends a request with an `on_token` listener, as a stop string would.
ENDING_TOKEN = VOCABULARY - 2
#: Maximum steps without a new token or an ended request; beyond it the engine counts as stuck.
PATIENCE = 300


class Clock:
    """Simulated clock: its seconds pass only when a step runs."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class ModelSetup:
    """Settings of a simulated model: cache groups, scheduler, policy and pipeline depth."""

    groups: tuple[GroupSpec, ...] = (GroupSpec("full", 256),)
    block_tokens: int = 4
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    policy: str = "fcfs"
    ageing_seconds: float | None = 10.0
    tpot_target: float = 0.1
    prefix_caching: bool = True
    depth: int = 1
    lazy: bool = False
    late_choice: bool = False
    max_model_tokens: int = 1 << 20


@dataclass
class SimulatedModel:
    setup: ModelSetup
    scheduler: Scheduler
    executor: MemoryExecutor


@dataclass
class World:
    """Models that share an arena. A step takes `step_seconds` plus `token_seconds` per token of simulated time."""

    num_slabs: int
    slab_bytes: int = 1024
    step_seconds: float = 0.010
    token_seconds: float = 0.001
    clock: Clock = field(default_factory=Clock)
    events: Counter[str] = field(default_factory=Counter)
    checks: bool = True

    def __post_init__(self) -> None:
        self.arena = SlabArena(self.num_slabs * self.slab_bytes, self.slab_bytes)
        self.device = MemoryDevice()
        self.core = EngineCore(self.clock)
        self.models: dict[str, SimulatedModel] = {}
        self.requests: list[Request] = []
        self._num_requests = 0

    # -- models -------------------------------------------------------------------------------------------------

    def add_model(self, name: str, setup: ModelSetup) -> SimulatedModel:
        config = setup.config
        kv = KVManager(
            self.arena,
            list(setup.groups),
            setup.block_tokens,
            max_step_tokens=config.max_step_tokens if config.chunk_tokens is not None else 1 << 30,
            revision=name,
            prefix_caching=setup.prefix_caching,
        )
        policy = make_policy(setup.policy, ageing_seconds=setup.ageing_seconds, tpot_target=setup.tpot_target)
        scheduler = Scheduler(name, kv, policy, config, setup.max_model_tokens, setup.late_choice)
        executor = MemoryExecutor(self.device, name, list(setup.groups), setup.block_tokens, lazy=setup.lazy)
        executor.on_step = self._pass_time
        self.models[name] = SimulatedModel(setup, scheduler, executor)
        self.core.add_model(ModelSlot(name, scheduler, executor, setup.depth))
        return self.models[name]

    def _pass_time(self, plan: StepPlan) -> None:
        self.clock.now += self.step_seconds + self.token_seconds * plan.num_tokens
        self.events["steps"] += 1
        self.events["step entries"] += len(plan.requests)
        self.events["moves"] += len(plan.moves)

    def unload(self, name: str) -> None:
        model = self.models.pop(name)
        self.core.remove_model(name)
        self._count(model)
        self.events["unloads"] += 1

    def _count(self, model: SimulatedModel) -> None:
        counters = model.scheduler.counters
        self.events["late plans"] += model.executor.num_late_plans
        self.events["preemptions"] += counters.preemptions
        self.events["swaps"] += counters.swaps_out + counters.swaps_in
        self.events["evictions"] += sum(pool.num_evictions for pool in model.scheduler.kv.pools)

    # -- requests -----------------------------------------------------------------------------------------------

    def add(
        self, model: str, prompt: list[int], max_tokens: int = 8, seed: int = 0, min_tokens: int = 0, **fields: object
    ) -> Request:
        """Submit a request and return it; raise what the engine raises. Stop tokens end it even before `min_tokens`."""
        self._num_requests += 1
        params = SamplingParams(max_tokens=max_tokens, seed=seed, min_tokens=min_tokens)
        request = Request(f"r{self._num_requests}", model, prompt, params, **fields)  # type: ignore[arg-type]
        self.core.add(request)
        self.requests.append(request)
        self.events["arrivals"] += 1
        return request

    def add_forks(self, parent: Request, count: int) -> list[Request]:
        """Submit `count` more samples of the request's prompt."""
        params = parent.params
        kept = {name: getattr(parent, name) for name in ("priority", "cache_salt", "stop_ids", "cross_tokens")}
        forks = []
        for index in range(count):
            fork = self.add(
                parent.model, list(parent.prompt), params.max_tokens, params.seed + index + 1, fork_of=parent, **kept
            )
            self.events["forks"] += 1
            forks.append(fork)
        return forks

    def cancel(self, request: Request) -> None:
        was_here = not request.is_ended
        assert self.core.abort(request.id) == was_here
        self.events["cancels"] += was_here

    # -- time ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        did = self.core.step()
        if self.checks:
            self.check()
        return did

    def check(self) -> None:
        self.core.check_integrity()
        self.events["integrity checks"] += 1

    def drain(self) -> None:
        """Step until the engine has no work; fail if it stops making progress."""
        last, idle = None, 0
        while self.core.has_work:
            assert self.step() or not self.core.has_work, f"stuck: {self.describe()}"
            progress = sum(len(request.tokens) + request.is_ended for request in self.requests)
            idle = idle + 1 if progress == last else 0
            last = progress
            assert idle < PATIENCE, f"busy without progress: {self.describe()}"

    def describe(self) -> str:
        return "; ".join(
            f"{name}: running {[(r.id, r.num_computed_tokens, r.num_tokens) for r in model.scheduler.running]}, "
            f"waiting {[(r.id, r.num_tokens) for r in model.scheduler.waiting.values()]}, "
            f"usage {model.scheduler.kv.usage()}"
            for name, model in self.models.items()
        )

    # -- what must hold -----------------------------------------------------------------------------------------

    def check_outputs(self) -> None:
        """Raise unless each finished request has its expected output, and each aborted one a prefix of it."""
        for request in self.requests:
            if not request.is_ended:
                continue
            listens = request.on_token is not None
            expected = expected_output(request, lambda token, listens=listens: listens and token == ENDING_TOKEN)
            if request.state is RequestState.FINISHED:
                assert request.output == expected, f"{request.id}: {request.output} is not {expected}"
            else:
                assert request.output == expected[: request.num_output_tokens], f"{request.id} went astray"
            if request.finish_reason is FinishReason.FAILED:
                assert request.error == "InjectedError: injected", request.error
            self.events[f"ended: {request.finish_reason}"] += 1
        self.requests = [request for request in self.requests if not request.is_ended]

    def check_drained(self) -> None:
        """Raise unless all requests have ended and no block is owned; cached blocks may remain."""
        assert all(request.is_ended for request in self.requests)
        for model in self.models.values():
            assert model.scheduler.kv.usage().owned == 0
            assert model.executor.host == {}
            assert not model.scheduler.ending and not model.scheduler.has_work

    def close(self) -> None:
        """Unload all models; raise unless the whole arena is free afterwards."""
        for name in list(self.models):
            self.unload(name)
        assert self.arena.num_free_slabs == self.num_slabs
        self.arena.check_integrity()


# -- at random ---------------------------------------------------------------------------------------------------------


def random_setup(rng: random.Random, slab_bytes: int) -> ModelSetup:
    sizes = [size for size in (256, 512, 768, 1024, 2048) if size <= slab_bytes]
    block_tokens = rng.choice([1, 2, 3, 4, 8])
    groups = []
    for index in range(rng.choice([1, 1, 1, 2, 3])):
        window = rng.choice([None, rng.randint(1, 24)])
        sinks = rng.randint(0, 9) if window is not None and rng.random() < 0.5 else 0
        groups.append(GroupSpec(f"g{index}", rng.choice(sizes), window, sinks))
    if rng.random() < 0.1:
        groups.append(GroupSpec("cross", rng.choice(sizes), cross=True))
    config = SchedulerConfig(
        max_running=rng.choice([1, 2, 3, 5, 8, 16]),
        max_waiting=rng.choice([4, 32]),
        max_step_tokens=rng.choice([1, 4, 16, 64]),
        chunk_tokens=rng.choice([None, 1, 2, 5, 8, 32]),
        step_seconds=rng.choice([None, None, 0.02]),
        preemption=rng.choice(list(Preemption)),
        swap_bytes=rng.choice([0, 2048, 1 << 20]),
    )
    depth = rng.choice([1, 1, 2, 3])
    return ModelSetup(
        tuple(groups),
        block_tokens,
        config,
        policy=rng.choice(["fcfs", "priority", "adaptive"]),
        ageing_seconds=rng.choice([None, 0.05, 10.0]),
        tpot_target=rng.choice([0.012, 0.03]),
        prefix_caching=rng.random() < 0.75,
        depth=depth,
        lazy=depth > 1 or rng.random() < 0.3,
        late_choice=rng.random() < 0.7,
        max_model_tokens=rng.choice([24, 64, 96]),
    )


class Traffic:
    """Random events on a world, reproducible from the generator."""

    def __init__(self, rng: random.Random, max_models: int = 3) -> None:
        self.rng = rng
        slab_bytes = rng.choice([1024, 2048, 4096])
        self.world = World(rng.choice([3, 5, 8, 16, 32]), slab_bytes)
        self._num_models = 0
        for _ in range(rng.randint(1, max_models)):
            self.load()
        self._prefixes = [self._tokens(rng.randint(1, 40)) for _ in range(3)]
        self.arrival_rate = rng.uniform(0.02, 0.3)
        self.cancel_rate = rng.uniform(0.0, 0.03)

    def load(self) -> None:
        self._num_models += 1
        self.world.add_model(f"m{self._num_models}", random_setup(self.rng, self.world.slab_bytes))

    def _tokens(self, count: int) -> list[int]:
        return [self.rng.randrange(VOCABULARY) for _ in range(count)]

    def arrive(self) -> None:
        """Submit a request, at random with a shared prefix and further samples."""
        rng, world = self.rng, self.world
        name = rng.choice(list(world.models))
        prompt = self._tokens(rng.choice([1, 2, 7, 20, 50]))
        if rng.random() < 0.6:
            prompt = rng.choice(self._prefixes)[: rng.randint(1, 40)] + prompt[: rng.randint(0, len(prompt))]
        has_cross = any(group.cross for group in world.models[name].setup.groups)
        on_token = (lambda token: token == ENDING_TOKEN) if rng.random() < 0.3 else None
        deadline = world.clock() + rng.random() * 0.5 if rng.random() < 0.05 else None
        waiting = world.models[name].scheduler.waiting
        max_tokens = rng.choice([1, 3, 10, 40])
        try:
            request = world.add(
                name,
                prompt,
                max_tokens,
                rng.randrange(8),
                min_tokens=rng.choice([0, 0, max_tokens]),
                priority=rng.choice(list(Priority)),
                deadline=deadline,
                cache_salt=rng.choice(["", "", "salt"]),
                on_token=on_token,
                stop_ids=frozenset({3}) if rng.random() < 0.3 else frozenset(),
                cross_tokens=rng.randint(1, 6) if has_cross else 0,
            )
            if rng.random() < 0.15:
                world.add_forks(request, rng.randint(1, 3))
        except OverloadedError:
            assert len(waiting) >= world.models[name].setup.config.max_waiting
            world.events["overloads"] += 1
        except ContextLengthError:
            world.events["refusals"] += 1

    def cancel(self) -> None:
        if alive := [request for request in self.world.requests if not request.is_ended]:
            self.world.cancel(self.rng.choice(alive))

    def fail_a_step(self) -> None:
        self.rng.choice(list(self.world.models.values())).executor.fails_next = True
        self.world.events["failing steps"] += 1

    def reload(self) -> None:
        """Unload a random model, whatever it is doing, and load another."""
        self.world.unload(self.rng.choice(list(self.world.models)))
        self.load()

    def event(self) -> None:
        chance, world = self.rng.random(), self.world
        if chance < self.arrival_rate:
            self.arrive()
        elif chance > 1 - self.cancel_rate:
            self.cancel()
        elif chance > 0.993 - self.cancel_rate:
            self.fail_a_step()
        elif chance > 0.992 - self.cancel_rate:
            self.reload()
        else:
            world.step()
            return
        if world.checks:
            world.check()

    def finish(self) -> None:
        """Drain the engine, then check outputs, blocks and the arena."""
        for model in self.world.models.values():
            model.executor.fails_next = False
        self.world.drain()
        self.world.check_outputs()
        self.world.check_drained()
        self.world.close()


def with_config(setup: ModelSetup, **changes: object) -> ModelSetup:
    return replace(setup, config=replace(setup.config, **changes))  # type: ignore[arg-type]
