"""`EngineCore`: the engine loop, which picks a model, plans a step, runs it and commits its result."""

from __future__ import annotations

import time
from collections.abc import Callable

from antiphon.engine.device_lane import DeviceLane, LateHandle
from antiphon.engine.model_slot import InFlight, ModelSlot
from antiphon.engine.plan import StepHandle, StepPlan, StepResult
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.telemetry import StepRecord, Telemetry
from antiphon.engine.turns import by_turn, share_of, urgency
from antiphon.errors import DeviceError, ModelNotFoundError, OutOfDeviceMemoryError


class EngineCore:
    """Engine loop over all resident models.

    Single-threaded: `step` runs one step of one model, and every other method is called between steps. With models on
    several devices, `step` runs one step on each free device and waits for none; `on_done` is called, from any thread,
    when a step in flight is done. A device that computes inside `submit` then gets a thread of its own.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, record_requests: bool = False) -> None:
        self.clock = clock
        self.telemetry = Telemetry()
        self.slots: dict[str, ModelSlot] = {}
        self.record_requests = record_requests
        self._owner: dict[str, str] = {}  # request id → model
        self._lanes: dict[str, DeviceLane] = {}
        self._has_several = False  # whether the models are on several devices
        #: Callback for a finished step, called from any thread; set by the owner of the loop.
        self.on_done: Callable[[], None] = lambda: None

    def add_model(self, slot: ModelSlot) -> None:
        self._set_several({slot.device, *(other.device for other in self.slots.values())})
        slot.clock.time = min((other.clock.time for other in self._beside(slot)), default=0.0)
        self.slots[slot.name] = slot
        self._lanes.setdefault(slot.device, DeviceLane(slot.device))

    def remove_model(self, name: str) -> None:
        """End the model's requests and free its memory."""
        slot = self.slots[name]
        self._drain(slot)
        slot.scheduler.close(self.clock())
        slot.executor.close()
        del self.slots[name]
        self._set_several({other.device for other in self.slots.values()})

    def _set_several(self, devices: set[str]) -> None:
        """Set the devices of all models, with no step in flight if the engine changes between one device and several.

        A step launched on a single device does not call `on_done`, and a step launched on one of several may run in a
        thread.
        """
        has_several = len(devices) > 1
        if has_several is not self._has_several:
            for slot in self.slots.values():
                self._drain(slot)
            self._has_several = has_several

    def _beside(self, slot: ModelSlot) -> list[ModelSlot]:
        return [other for other in self.slots.values() if other.device == slot.device]

    def close(self) -> None:
        """End the devices' threads. No step may be in flight."""
        for lane in self._lanes.values():
            lane.close()

    def add_adapter(self, model: str, slot: int, content: bytes) -> None:
        """Commit the model's steps in flight, then accept requests that use the adapter in this slot."""
        own = self.slots[model]
        self._drain(own)
        own.adapters[slot] = content

    def remove_adapter(self, model: str, slot: int) -> None:
        """End the requests that use the adapter. No later step uses it."""
        own = self.slots.get(model)
        if own is None or own.adapters.pop(slot, None) is None:
            return
        self._drain(own)
        for request in own.scheduler.requests():
            if request.adapter == slot and not request.is_ended:
                self.abort(request.id)

    # -- requests -----------------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a request for its model. A request that is rejected leaves no trace in the engine."""
        slot = self.slots.get(request.model)
        if slot is None:
            known = ", ".join(self.slots) or "none"
            raise ModelNotFoundError(f"model {request.model!r} is not loaded; loaded: {known}")
        if request.adapter >= 0 and slot.adapters.get(request.adapter) != request.content:
            raise ModelNotFoundError(f"the adapter of model {request.model!r} was unloaded")
        if request.id in self._owner:
            raise ValueError(f"request id {request.id!r} is in use")
        was_idle = not slot.scheduler.has_work
        slot.scheduler.add(request, self.clock())
        self._owner[request.id] = request.model
        self.telemetry.num_arrivals += 1
        caller_end = request.on_end

        def ended(ended_request: Request) -> None:
            del self._owner[ended_request.id]
            self.telemetry.add_request(ended_request)
            if caller_end is not None:
                caller_end(ended_request)

        request.on_end = ended
        if was_idle:
            # Time without work gives no credit: the model's clock catches up with the clocks of the busy models.
            others = [o for o in self._beside(slot) if o.scheduler.has_work and o.clock is not slot.clock]
            least = min((other.clock.time for other in others), default=slot.clock.time)
            slot.clock.time = max(slot.clock.time, least)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.CANCELLED) -> bool:
        """End a request in any state; return False if it is unknown or has ended."""
        model = self._owner.get(request_id)
        return model is not None and self.slots[model].scheduler.abort(request_id, reason, self.clock())

    @property
    def has_work(self) -> bool:
        return any(slot.scheduler.has_work or slot.in_flight for slot in self.slots.values())

    # -- the loop -----------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether the loop must wait for `on_done` or a new request after `step` has returned False."""
        return self._has_several and any(slot.in_flight for slot in self.slots.values())

    @property
    def busy_since(self) -> float | None:
        """Launch time (`time.monotonic`) of the oldest uncommitted step with several devices, or None."""
        # Copied, because the heartbeat thread reads the lanes while models are added.
        begun = [lane.busy_since for lane in list(self._lanes.values())]
        return min((since for since in begun if since is not None), default=None)

    def step(self) -> bool:
        """Run one step of the next model on each device; return False if no request advanced."""
        if not self._has_several:
            return self._step_device(list(self.slots.values()))
        advanced = self._commit_done()
        for device in self._lanes:
            slots = [slot for slot in self.slots.values() if slot.device == device]
            is_free = not any(slot.in_flight for slot in slots if slot.computes_in_submit)
            advanced = (is_free and self._step_device(slots)) or advanced
        return advanced

    def _step_device(self, slots: list[ModelSlot]) -> bool:
        """Run one step of the next of a device's models; return False if no request advanced."""
        num_requests = len(self._owner)
        for slot in by_turn(slots, self._lanes):
            if self._step(slot):
                self._commit_done(besides=slot)
                return True
            is_stuck = slot.scheduler.best_priority() is Priority.CRITICAL and not slot.in_flight
            if is_stuck and self._make_room_for(slot):
                return True
        if len(self._owner) < num_requests:
            # A deadline passed and freed memory that a model earlier in the order may have lacked.
            return self._step_device(slots)
        return not any(slot.in_flight for slot in slots) and self._unlock(slots)

    def _step(self, slot: ModelSlot) -> bool:
        """Launch the model's next step, and commit its oldest if `depth` steps are in flight.

        On one device, the tokens of every step in flight are being sampled on return, since the next step reads them.
        With several devices, return early rather than wait. Return False if no request advanced; moving blocks alone
        does not count.
        """
        in_flight = slot.in_flight
        while in_flight and (len(in_flight) >= slot.depth or in_flight[-1].is_needed):
            if not self._may_commit(slot):
                return False
            self._commit_oldest(slot)
        started = self.clock()
        plan = slot.scheduler.plan(started)
        plan.is_late = slot.depth > 1 and not in_flight
        advanced = bool(plan)
        if plan or plan.has_moves:
            self._launch(slot, plan, started)
        while in_flight and (len(in_flight) >= slot.depth or not advanced or not in_flight[-1].is_chosen):
            if not self._may_commit(slot):
                break
            step = self._commit_oldest(slot)
            advanced = advanced or bool(step.plan)
        return advanced

    def _may_commit(self, slot: ModelSlot) -> bool:
        """Return whether the oldest step can be committed: with several devices, only if the commit does not wait."""
        return not self._has_several or slot.in_flight[0].handle.done()

    def _submit(self, slot: ModelSlot, plan: StepPlan) -> StepHandle:
        if not self._has_several:
            return slot.executor.submit(plan)
        lane = self._lanes[slot.device]
        handle = lane.submit(slot.executor, plan) if slot.computes_in_submit else slot.executor.submit(plan)
        if isinstance(handle, LateHandle):
            handle.notify(self.on_done)
        if lane.busy_since is None:
            lane.mark(True)
        return handle

    def _launch(self, slot: ModelSlot, plan: StepPlan, started: float) -> None:
        planned = self.clock()
        try:
            handle = self._submit(slot, plan)
        except Exception as error:
            self._failed(slot, plan, error)
            return
        step = InFlight(plan, handle, started, planned - started)
        slot.in_flight.append(step)
        if not plan.needs_commit or len(slot.in_flight) == 1:
            self._choose(slot, step)

    def _choose(self, slot: ModelSlot, step: InFlight) -> None:
        step.is_chosen = True
        try:
            step.handle.choose()
        except Exception as error:
            slot.in_flight.remove(step)
            self._mark_lane(slot)
            self._failed(slot, step.plan, error)

    def _commit_oldest(self, slot: ModelSlot) -> InFlight:
        """Commit the model's oldest step in flight and start the sampling of the step after it."""
        step = slot.in_flight.popleft()
        self._commit(slot, step)
        if slot.in_flight and not slot.in_flight[0].is_chosen:
            self._choose(slot, slot.in_flight[0])
        return step

    def _commit(self, slot: ModelSlot, step: InFlight) -> None:
        plan, lane = step.plan, self._lanes[slot.device]
        self._mark_lane(slot)
        try:
            result = step.handle.result()
        except Exception as error:
            self._failed(slot, plan, error)
            return
        ran = self.clock()
        # before the commit, which removes requests
        best = slot.scheduler.best_priority() if len(self.slots) > 1 else None
        slot.scheduler.commit(plan, result, ran)
        done = self.clock()
        begun = max(step.started, lane.last_commit)  # until `last_commit` the step waited for the one before it
        lane.last_commit = done
        slot.clock.time += (done - begun) / share_of(best)
        lane.turn.add(slot.clock, done - begun)
        slot.usual_step += (done - begun - slot.usual_step) * (0.1 if slot.usual_step else 1.0)
        if plan:
            if not result.is_first:
                slot.scheduler.observe(plan, ran - begun)
            self._record(slot, step, result, begun, ran, done)

    def _mark_lane(self, slot: ModelSlot) -> None:
        lane = self._lanes[slot.device]
        if lane.busy_since is not None:
            lane.mark(any(other.in_flight for other in self._beside(slot)))

    def _failed(self, slot: ModelSlot, plan: StepPlan, error: Exception) -> None:
        """Fail the requests of a step that raised, or retry them in smaller steps; raise the error of a lost device."""
        meant = slot.translate(error)
        if isinstance(meant, DeviceError):
            raise meant from error
        if not (isinstance(meant, OutOfDeviceMemoryError) and slot.scheduler.shrink(plan)):
            slot.scheduler.fail(plan, describe(meant), self.clock())

    def _record(
        self, slot: ModelSlot, step: InFlight, result: StepResult, begun: float, ran: float, done: float
    ) -> None:
        plan = step.plan
        parts = {"plan": step.plan_seconds, **result.timings}
        if not result.timings:
            parts["run"] = max(0.0, ran - begun - step.plan_seconds)
        parts["commit"] = done - ran
        requests = []
        if self.record_requests:
            triples = zip(plan.requests, plan.counts, range(len(plan.counts)), strict=True)
            requests = [
                (request.id, count, index < plan.num_decodes or index in plan.drafts)
                for request, count, index in triples
            ]
        self.telemetry.add_step(
            StepRecord(
                self.telemetry.num_steps,
                slot.name,
                begun,
                plan.num_answering,
                plan.num_prefill_tokens,
                *slot.scheduler.figures(),
                parts,
                requests,
                result.native_seconds,
                plan.stage,
                len(plan.requests),
                plan.num_drafted_tokens,
            )
        )

    def _commit_done(self, besides: ModelSlot | None = None) -> bool:
        """Commit finished steps of other models, so that their tokens do not wait for those models' next turn."""
        committed = False
        for slot in self.slots.values():
            while slot is not besides and slot.in_flight and slot.in_flight[0].handle.done():
                self._commit_oldest(slot)
                committed = True
        return committed

    def _drain(self, slot: ModelSlot) -> None:
        while slot.in_flight:
            self._commit_oldest(slot)

    def _unlock(self, slots: list[ModelSlot]) -> bool:
        """Resolve a deadlock in which models of a device hold each other's memory and none can plan a step.

        The model with the most urgent, then oldest request continues, and requests of the others are preempted. That
        request is never preempted here, so it ends, and the next one can continue. Return False if no request advanced.
        """
        stuck = [slot for slot in slots if slot.scheduler.has_work]
        return len(stuck) > 1 and self._make_room_for(min(stuck, key=urgency))

    def _make_room_for(self, first: ModelSlot) -> bool:
        """Preempt requests of less urgent models, least urgent first, until the first model can run a step.

        Return False if it still cannot.
        """
        beside = self._beside(first)
        for slot in beside:
            self._drain(slot)  # steps in flight cannot be preempted, and their requests may end
        by_urgency = sorted(beside, key=urgency)
        for slot in reversed(by_urgency[by_urgency.index(first) + 1 :]):
            plan = StepPlan(slot.name)
            while slot.scheduler.preempt_last(plan):
                if plan.has_moves:
                    self._launch(slot, plan, self.clock())
                    self._drain(slot)
                if self._step(first):
                    return True
                plan = StepPlan(slot.name)
        return False

    def check_integrity(self) -> None:
        for slot in self.slots.values():
            slot.scheduler.check_integrity()


def describe(error: BaseException) -> str:
    """Return the error's type and message as one line for clients."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
