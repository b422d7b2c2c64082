"""`ActivitySample`: the engine's state that its thread copies for a report, between two steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.engine.core import EngineCore
from antiphon.engine.request import Request
from antiphon.engine.telemetry import RequestRecord, StepRecord
from antiphon.runtime.activity.cache_map import CacheSnapshot, cache_snapshot


@dataclass(frozen=True)
class SlotState:
    """Resident part of a model, and the lengths of its queues."""

    name: str
    role: str
    device: str
    running: int
    waiting: int


@dataclass(frozen=True)
class ActivitySample:
    """Steps and requests since the last sample. `live` requests may change after the sample was taken."""

    clock: float
    steps: list[StepRecord]
    ended: list[RequestRecord]
    #: Steps and requests that were discarded before they were sampled.
    num_dropped: int
    live: list[Request]
    slots: list[SlotState]
    caches: list[CacheSnapshot] = field(default_factory=list)


class ActivitySampler:
    """Sampler of one core, at no cost between samples: the core keeps its telemetry in any case."""

    def __init__(self, core: EngineCore, num_steps: int = 0, num_ended: int = 0) -> None:
        """Start with the last `num_steps` steps and `num_ended` requests in the first sample."""
        self.core = core
        telemetry = core.telemetry
        self._steps = max(0, telemetry.num_steps - num_steps, telemetry.num_steps - len(telemetry.steps))
        self._ended = max(0, telemetry.num_ended - num_ended, telemetry.num_ended - len(telemetry.requests))
        self._seen: tuple[object, ...] | None = None

    def has_news(self) -> bool:
        """Return whether anything happened since the last sample. Any thread may call it."""
        return self._version() != self._seen

    def _version(self) -> tuple[object, ...]:
        telemetry = self.core.telemetry
        return telemetry.num_steps, telemetry.num_arrivals, telemetry.num_ended, tuple(self.core.slots)

    def take(self, with_caches: bool) -> ActivitySample:
        """Take a sample in the core's own thread."""
        telemetry = self.core.telemetry
        self._seen = self._version()
        steps, ended = telemetry.steps_since(self._steps), telemetry.requests_since(self._ended)
        missed = telemetry.num_steps - self._steps - len(steps) + telemetry.num_ended - self._ended - len(ended)
        self._steps, self._ended = telemetry.num_steps, telemetry.num_ended
        live: list[Request] = []
        states: list[SlotState] = []
        caches: list[CacheSnapshot] = []
        for slot in self.core.slots.values():
            live += slot.scheduler.requests()
            running, waiting, *_ = slot.scheduler.figures()
            states.append(SlotState(slot.name, slot.role, slot.device, running, waiting))
            cache = cache_snapshot(slot) if with_caches else None
            if cache is not None:
                caches.append(cache)
        return ActivitySample(self.core.clock(), steps, ended, missed, live, states, caches)
