"""Models on several devices in one loop: no device waits for another."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from antiphon.engine.core import EngineCore
from antiphon.engine.plan import StepHandle, StepPlan
from antiphon.engine.request import FinishReason, Request
from antiphon.errors import DeviceError, EngineError, OutOfDeviceMemoryError
from antiphon.runtime.frontend.loop import EngineLoop
from support.engine.fake_device import FakeExecutor, FakeHandle, fake_request, fake_slot
from support.waiting import wait_until

SECONDS = 120


class World:
    """A slow CPU model, a CPU model beside it, and a quick model on another device."""

    def __init__(self) -> None:
        self.core = EngineCore()
        self.slow = FakeExecutor(computes_in_submit=True)
        self.beside = FakeExecutor(computes_in_submit=True)
        self.quick = FakeExecutor()
        self.core.add_model(fake_slot("slow", "cpu", self.slow, computes_in_submit=True))
        self.core.add_model(fake_slot("beside", "cpu", self.beside, computes_in_submit=True))
        self.core.add_model(fake_slot("quick", "gpu", self.quick))
        self.loop = EngineLoop(self.core)
        self.ended: SimpleQueue[Request] = SimpleQueue()

    def add(self, name: str, model: str) -> None:
        self.loop.add([fake_request(name, model, self.ended.put)]).result(SECONDS)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for executor in (made.slow, made.beside, made.quick):
        for handle in executor.handles:
            handle.finish()
    made.loop.close()


def test_a_slow_device_does_not_delay_the_other(world: World) -> None:
    world.add("long", "slow")
    assert world.slow.submitted.acquire(timeout=SECONDS)
    since = wait_until(lambda: world.core.busy_since, "the engine to be busy")
    for number in range(3):
        world.add(f"short {number}", "quick")
        assert world.quick.submitted.acquire(timeout=SECONDS)
        world.quick.handles[-1].finish()
        ended = world.ended.get(timeout=SECONDS)
        assert (ended.id, ended.finish_reason) == (f"short {number}", FinishReason.STOP)
    assert not world.slow.handles[0].done()
    assert world.core.busy_since == since  # what the watchdog sees of the long step
    world.slow.handles[0].finish()
    assert world.ended.get(timeout=SECONDS).result == "long done"
    wait_until(lambda: world.loop.busy_since is None, "the loop to be idle", seen=lambda: world.loop.busy_since)


def test_a_device_computes_one_step_at_a_time_in_its_own_thread(world: World) -> None:
    world.add("first", "slow")
    assert world.slow.submitted.acquire(timeout=SECONDS)
    world.add("second", "beside")
    world.add("short", "quick")
    assert world.quick.submitted.acquire(timeout=SECONDS)
    world.quick.handles[0].finish()
    assert world.ended.get(timeout=SECONDS).id == "short"
    assert not world.beside.handles
    world.slow.handles[0].finish()
    assert world.beside.submitted.acquire(timeout=SECONDS)
    world.beside.handles[0].finish()
    assert {world.ended.get(timeout=SECONDS).id for _ in range(2)} == {"first", "second"}
    assert world.slow.threads == world.beside.threads == {"antiphon-cpu_0"}
    assert world.quick.threads == {"antiphon-engine"}


def test_the_loop_sleeps_until_a_step_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    core, quick, other = EngineCore(), FakeExecutor(), FakeExecutor(is_instant=True)
    core.add_model(fake_slot("quick", "gpu", quick))
    core.add_model(fake_slot("other", "cpu", other))
    loop = EngineLoop(core)
    event, waits = loop._wake, []
    wait = event.wait

    def noted(timeout: float | None = None) -> bool:
        waits.append(timeout)
        return wait(timeout)

    monkeypatch.setattr(event, "wait", noted)
    loop.call(lambda: None).result(SECONDS)  # the thread is in no older wait
    ended: SimpleQueue[Request] = SimpleQueue()
    loop.add([fake_request("a", "quick", ended.put)]).result(SECONDS)
    assert quick.submitted.acquire(timeout=SECONDS)
    wait_until(lambda: core.is_waiting and waits, "the engine to wait for its device")
    quick.handles[0].finish()
    assert ended.get(timeout=SECONDS).id == "a"
    loop.close()
    assert set(waits) == {None}


def test_a_failed_step_fails_its_own_requests_alone(world: World) -> None:
    world.add("lost", "slow")
    world.add("kept", "quick")
    assert world.slow.submitted.acquire(timeout=SECONDS) and world.quick.submitted.acquire(timeout=SECONDS)
    world.slow.handles[0].finish(ValueError("a bad input"))
    lost = world.ended.get(timeout=SECONDS)
    assert (lost.id, lost.finish_reason, lost.error) == ("lost", FinishReason.FAILED, "ValueError: a bad input")
    world.quick.handles[0].finish()
    assert world.ended.get(timeout=SECONDS).finish_reason is FinishReason.STOP


def test_a_model_is_removed_when_its_step_is_done(world: World) -> None:
    world.add("last", "slow")
    assert world.slow.submitted.acquire(timeout=SECONDS)
    removed = world.loop.call(lambda: world.core.remove_model("slow"))
    world.slow.handles[0].finish()
    removed.result(SECONDS)
    world.add("after", "quick")
    assert world.quick.submitted.acquire(timeout=SECONDS)
    world.quick.handles[-1].finish()
    assert {world.ended.get(timeout=SECONDS).id for _ in range(2)} == {"last", "after"}


def test_clocks_are_of_one_device() -> None:
    """A model that comes to a device with little work does not start with the time of a busy device."""
    core = EngineCore()
    busy, idle = fake_slot("busy", "gpu", FakeExecutor(is_instant=True)), fake_slot("idle", "cpu", FakeExecutor())
    core.add_model(busy)
    busy.clock.time = 100.0
    core.add_model(idle)
    assert idle.clock.time == 0.0
    later = fake_slot("later", "gpu", FakeExecutor())
    core.add_model(later)
    assert later.clock.time == 100.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lost_device_ends_the_loop(world: World) -> None:
    """Of a step, of a load in another thread: whatever is open fails with the cause, and later calls do too."""
    world.add("guilty", "quick")
    world.add("innocent", "slow")
    assert world.slow.submitted.acquire(timeout=SECONDS) and world.quick.submitted.acquire(timeout=SECONDS)
    world.quick.handles[0].finish(DeviceError("gpu failed: an illegal memory access"))
    ended = [world.ended.get(timeout=SECONDS) for _ in range(2)]
    expected = "the engine stopped: DeviceError: gpu failed: an illegal memory access"
    assert [(request.finish_reason, request.error) for request in ended] == [(FinishReason.FAILED, expected)] * 2
    wait_until(lambda: world.loop.failure == expected, "the loop to fail", seen=lambda: world.loop.failure)
    with pytest.raises(EngineError, match="gpu failed: an illegal memory access"):
        world.add("late", "slow")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_device_lost_while_a_model_loads_ends_the_loop(world: World) -> None:
    world.add("open", "quick")
    world.loop.end(DeviceError("gpu failed"))
    assert world.ended.get(timeout=SECONDS).error == "the engine stopped: DeviceError: gpu failed"


class SmallExecutor(FakeExecutor):
    """Has memory for so many requests in a step."""

    def __init__(self, most: int) -> None:
        super().__init__(is_instant=True)
        self.sizes: list[int] = []
        self._most = most

    def submit(self, plan: StepPlan) -> StepHandle:
        self.sizes.append(len(plan.requests))
        if len(plan.requests) > self._most:
            raise MemoryError("device")
        return super().submit(plan)


@pytest.mark.parametrize("most", [0, 2])
def test_a_step_that_runs_out_of_memory_is_halved(most: int) -> None:
    executor = SmallExecutor(most)
    slot = fake_slot("model", "gpu", executor)
    slot.scheduler.max_step_tokens = 8  # type: ignore[attr-defined]
    slot.translate = lambda error: OutOfDeviceMemoryError("gpu is full") if isinstance(error, MemoryError) else error
    core, requests = EngineCore(), [fake_request(str(number), "model") for number in range(8)]
    core.add_model(slot)
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
    if most:
        assert executor.sizes == [8, 4, 2, 2, 2, 2]
        assert all(request.result == f"{request.id} done" for request in requests)
    else:
        assert executor.sizes == [8, 4, 2, *[1] * 8]
        assert {request.error for request in requests} == {"OutOfDeviceMemoryError: gpu is full"}


def test_a_step_in_flight_when_a_second_device_comes_is_committed_first() -> None:
    """It was launched without a call of `on_done`, so the loop would sleep on it."""
    core, quick = EngineCore(), FakeExecutor()
    quick_slot = fake_slot("quick", "gpu", quick)
    quick_slot.depth = 2
    core.add_model(quick_slot)
    request = fake_request("a", "quick")
    core.add(request)
    core.step()
    assert quick_slot.in_flight and not quick.handles[0].done()
    quick.handles[0].finish()
    core.add_model(fake_slot("other", "cpu", FakeExecutor(is_instant=True)))
    assert request.finish_reason is FinishReason.STOP and not quick_slot.in_flight and not core.is_waiting


def test_a_step_in_a_thread_is_committed_before_its_device_is_alone(world: World) -> None:
    world.add("last", "slow")
    assert world.slow.submitted.acquire(timeout=SECONDS)

    def remove() -> bool:
        world.slow.handles[0].finish()
        world.core.remove_model("quick")
        return bool(world.core.slots["slow"].in_flight)

    assert not world.loop.call(remove).result(SECONDS)
    assert world.ended.get(timeout=SECONDS).result == "last done"
    assert world.core.busy_since is None
    world.add("after", "beside")
    assert world.beside.submitted.acquire(timeout=SECONDS)
    assert world.beside.threads == {"antiphon-engine"}


class UnluckyHandle(FakeHandle):
    def choose(self) -> None:
        raise ValueError("no tokens")


class UnluckyExecutor(FakeExecutor):
    """Its steps fail when their tokens are to be drawn."""

    def submit(self, plan: StepPlan) -> StepHandle:
        return UnluckyHandle(plan)


def test_a_device_is_idle_after_tokens_could_not_be_drawn() -> None:
    core, request = EngineCore(), fake_request("a", "unlucky")
    core.add_model(fake_slot("unlucky", "gpu", UnluckyExecutor()))
    core.add_model(fake_slot("other", "cpu", FakeExecutor(is_instant=True)))
    core.add(request)
    core.step()
    assert request.error == "ValueError: no tokens" and not core.has_work
    assert core.busy_since is None  # else the watchdog ends the process
