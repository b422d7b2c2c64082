"""Order of models that share a device, by priority and by the time that each has used."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.engine.device_lane import DeviceLane
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.request import Priority

#: Share of time of a model by its most urgent request. Critical requests always go first.
SHARES = {Priority.CRITICAL: 16.0, Priority.HIGH: 4.0, Priority.NORMAL: 1.0, Priority.LOW: 0.25}


def by_turn(slots: list[ModelSlot], lanes: Mapping[str, DeviceLane]) -> list[ModelSlot]:
    """Return the device's models with work: critical requests first, then by time used relative to their share.

    If the first model's turn is over, a model of at least the same share with shorter steps goes before it.
    """
    busy = [slot for slot in slots if slot.scheduler.has_work or slot.in_flight]
    if len(busy) < 2:
        return busy

    best = {slot.name: slot.scheduler.best_priority() for slot in busy}

    def turn(slot: ModelSlot) -> tuple[bool, float, int]:
        return (best[slot.name] is not Priority.CRITICAL, slot.clock.time, slot.turn_order)

    order = sorted(busy, key=turn)
    first = order[0]
    if lanes[first.device].turn.is_over(first.clock, first.usual_step):
        share = share_of(best[first.name])
        for slot in order:
            is_other = slot.clock is not first.clock
            if is_other and slot.usual_step < first.usual_step and share_of(best[slot.name]) >= share:
                order.remove(slot)
                return [slot, *order]
    return order


def urgency(slot: ModelSlot) -> tuple[float, float]:
    """Return a sort key from the model's most urgent, then oldest request; the smallest is the most urgent."""
    requests = [request for request in slot.scheduler.requests() if not request.is_ended]
    pairs = ((float(request.priority), request.marks.arrived) for request in requests)
    return min(pairs, default=(float("inf"), 0.0))


def share_of(best: Priority | None) -> float:
    """Return a model's share of time by its most urgent request's priority; None counts as NORMAL."""
    return SHARES[Priority.NORMAL if best is None else best]
