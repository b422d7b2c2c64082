"""Cross groups: filled once, shared by forks, never found by a request with other audio."""

from __future__ import annotations

from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.model_slot import FEED_REQUESTS, ModelSlot
from antiphon.engine.plan import StepHandle, StepPlan, StepResult
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import SchedulerConfig

CROSS = 40
PROMPT = list(range(20))


def make_scheduler(max_running: int = 8, isolates_fills: bool = True) -> Scheduler:
    groups = [GroupSpec("self", 512), GroupSpec("cross", 512, cross=True)]
    kv = KVManager(SlabArena(1 << 20, 4096), groups, 8)
    policy = make_policy("fcfs", ageing_seconds=None, tpot_target=0.1, ttft_target=None)
    return Scheduler("m", kv, policy, SchedulerConfig(max_running=max_running, isolates_fills=isolates_fills), 100)


def request(name: str, content: bytes, fork_of: Request | None = None) -> Request:
    params = SamplingParams(max_tokens=8)
    return Request(name, "m", PROMPT, params, cross_tokens=CROSS, content=content, fork_of=fork_of)


def step(scheduler: Scheduler) -> StepPlan:
    plan = scheduler.plan(0.0)
    scheduler.commit(plan, StepResult([7] * sum(plan.samples)), 0.0)
    scheduler.check_integrity()
    return plan


def finish(scheduler: Scheduler) -> None:
    while scheduler.has_work:
        step(scheduler)


def test_cross_blocks_are_filled_in_a_step_of_their_own() -> None:
    scheduler = make_scheduler()
    for name in ("a", "b", "c"):
        scheduler.add(request(name, name.encode()), 0.0)
    plans = [step(scheduler) for _ in range(6)]
    # Requests that were left out have the next step, together with all others.
    assert [[member.id for member in plan.requests] for plan in plans[:5]] == [
        ["a"],
        ["b"],
        ["a", "b"],
        ["c"],
        ["a", "b", "c"],
    ]
    assert [len(plan.row_setups) for plan in plans] == [1, 1, 0, 1, 0, 0]
    scheduler.add(request("d", b"d"), 0.0)
    assert [member.id for member in step(scheduler).requests] == ["d"]  # no request was left out of the last step
    finish(scheduler)


def test_a_device_fills_many_beside_other_work() -> None:
    scheduler = make_scheduler(isolates_fills=False)
    for names in ("abc", "de"):
        for name in names:
            scheduler.add(request(name, name.encode()), 0.0)
        plan = step(scheduler)
        assert [setup.request.id for setup in plan.row_setups if setup.fills_cross] == list(names)
    assert {member.id for member in plan.requests} == set("abcde")
    finish(scheduler)
    assert scheduler.kv.usage().owned == 0


def test_one_request_is_filled_a_step_and_forks_share_it() -> None:
    scheduler = make_scheduler()
    first, second = request("a", b"one"), request("b", b"two")
    child = request("c", b"one", fork_of=first)
    for added in (first, second, child):
        scheduler.add(added, 0.0)
    filled = []
    for _ in range(3):
        filled.append([setup.request.id for setup in step(scheduler).row_setups if setup.fills_cross])
    assert filled == [["a"], ["b"], []]
    assert child.tables[1] == first.tables[1] and len(first.tables[1]) == CROSS // 8
    assert not set(first.tables[1]) & set(second.tables[1])
    finish(scheduler)
    assert scheduler.kv.usage().owned == 0


def test_only_the_same_audio_shares_a_prefix() -> None:
    scheduler = make_scheduler()
    for name, content, cached in (("a", b"one", 0), ("b", b"two", 0), ("c", b"one", 16), ("d", b"", 0)):
        added = request(name, content)
        scheduler.add(added, 0.0)
        finish(scheduler)
        assert added.num_cached_tokens == cached, name


def test_what_reads_the_prompt_computes_it() -> None:
    scheduler = make_scheduler()
    for name in ("a", "b"):
        added = request(name, b"one")
        added.probe = (0, 3)
        scheduler.add(added, 0.0)
        finish(scheduler)
        assert added.num_cached_tokens == 0


def test_an_abort_frees_cross_blocks() -> None:
    scheduler = make_scheduler()
    scheduler.add(request("a", b"one"), 0.0)
    step(scheduler)
    assert scheduler.kv.usage().owned > CROSS // 8
    scheduler.abort("a", FinishReason.CANCELLED, 1.0)
    scheduler.check_integrity()
    assert scheduler.kv.usage().owned == 0


class _Part(Scheduler):
    """A scheduler with a fixed number of requests."""

    def __init__(self, count: int) -> None:
        self.count = count

    def requests(self) -> list[Request]:
        return [request(str(index), b"") for index in range(self.count)]


def test_an_encoder_goes_first_until_its_decoder_has_a_full_batch() -> None:
    class Nothing:
        def submit(self, plan: StepPlan) -> StepHandle:
            raise AssertionError

        def close(self) -> None: ...

    for count, order in ((0, ["encoder", "decoder"]), (FEED_REQUESTS, ["decoder", "encoder"])):
        decoder = ModelSlot("decoder", _Part(count), Nothing())
        encoder = ModelSlot("encoder", _Part(0), Nothing(), clock=decoder.clock, feeds=decoder)
        decoder.clock.time = 3.0
        assert encoder.clock.time == 3.0
        assert [slot.name for slot in sorted([decoder, encoder], key=lambda slot: slot.turn_order)] == order
