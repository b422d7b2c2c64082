"""`ActivityReport`: the state of an engine for listeners, updated with samples.

It has numbers, names and states only: no token and no text of a request, and no error message, which may quote a text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from antiphon.engine.request import Request
from antiphon.runtime.activity.cache_map import cache_maps
from antiphon.runtime.activity.gaps import NUM_BUCKETS, PER_DECADE, SHORTEST, GapCounts
from antiphon.runtime.activity.rows import REQUEST_COLUMNS, STEP_COLUMNS, ended_row, live_row, state_of, step_row
from antiphon.runtime.activity.sample import ActivitySample

#: Maximum numbers of recent steps and ended requests in a snapshot.
MAX_STEPS = 2000
MAX_ENDED = 200
#: Maximum numbers of new steps and rows in a report; further ones are only counted.
MAX_NEW_STEPS = 500
MAX_ROWS = 1000


class ActivityReport:
    """Activity report for one thread. `update` takes the samples of all cores."""

    def __init__(self) -> None:
        self._steps: deque[list[Any]] = deque(maxlen=MAX_STEPS)
        self._ended: deque[list[Any]] = deque(maxlen=MAX_ENDED)
        self._live: dict[str, list[Any]] = {}
        # state of each live request's last row, to send only changed rows
        self._marks: dict[str, tuple[object, ...]] = {}
        self._gaps = GapCounts()
        self._roles: dict[str, str] = {}
        self._models: list[dict[str, Any]] = []
        self._queues: dict[str, list[int]] = {}
        self._maps: dict[str, list[dict[str, Any]]] = {}
        self._memory: dict[str, Any] = {}
        self._clock = 0.0

    def update(
        self,
        samples: list[ActivitySample],
        *,
        with_counts: bool = True,
        with_caches: bool = False,
        memory: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Add samples and return the changes. `with_counts` includes requests whose token counts changed."""
        self._clock = max((sample.clock for sample in samples), default=self._clock)
        news: dict[str, Any] = {"clock": round(self._clock, 6)}
        dropped = sum(sample.num_dropped for sample in samples)
        self._take_models(samples, news)
        steps = [step_row(step, self._roles.get(step.model, "")) for sample in samples for step in sample.steps]
        self._steps.extend(steps)
        if steps:
            news["steps"] = steps[-MAX_NEW_STEPS:]
            dropped += max(0, len(steps) - MAX_NEW_STEPS)
        rows = self._take_requests(samples, with_counts)
        if rows:
            news["requests"] = rows[-MAX_ROWS:]
            dropped += max(0, len(rows) - MAX_ROWS)
        gaps = self._gaps.take(_live(samples), (record for sample in samples for record in sample.ended))
        if gaps:
            news["gaps"] = gaps
        if with_caches:
            self._take_caches(samples, news)
        if memory is not None and memory != self._memory:
            self._memory = news["memory"] = memory
        if dropped:
            news["dropped"] = dropped
        return news

    def _take_models(self, samples: list[ActivitySample], news: dict[str, Any]) -> None:
        slots = [slot for sample in samples for slot in sample.slots]
        models = [{"name": slot.name, "role": slot.role, "device": slot.device} for slot in slots]
        if models != self._models:
            self._models = news["models"] = models
            self._roles |= {slot.name: slot.role for slot in slots}
            names = {slot.name for slot in slots}
            self._maps = {name: maps for name, maps in self._maps.items() if name in names}
        queues = {slot.name: [slot.running, slot.waiting] for slot in slots}
        if queues != self._queues:
            self._queues = news["queues"] = queues

    def _take_requests(self, samples: list[ActivitySample], with_counts: bool) -> list[list[Any]]:
        rows: list[list[Any]] = []
        ended = [ended_row(record) for sample in samples for record in sample.ended]
        gone = {row[0] for row in ended}
        live: dict[str, list[Any]] = {}
        marks: dict[str, tuple[object, ...]] = {}
        for request in _live(samples):
            if request.id in gone or request.is_ended:
                continue
            mark = state_of(request), request.marks.preemptions, bool(request.marks.tokens)
            counts = request.num_output_tokens, request.num_cached_tokens
            known = self._marks.get(request.id)
            if known is None or known[0] != mark or (with_counts and known[1] != counts):
                rows.append(live_row(request))
                live[request.id], marks[request.id] = rows[-1], (mark, counts)
            else:
                live[request.id], marks[request.id] = self._live[request.id], known
        self._live, self._marks = live, marks
        self._ended.extend(ended)
        return rows + ended

    def _take_caches(self, samples: list[ActivitySample], news: dict[str, Any]) -> None:
        maps = {cache.model: cache_maps(cache) for sample in samples for cache in sample.caches}
        changed = {model: own for model, own in maps.items() if own != self._maps.get(model)}
        if changed:
            self._maps |= changed
            news["cache"] = [pool for own in changed.values() for pool in own]

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state, with the names of the columns.

        It has no count of dropped steps: a listener that begins here has missed none.
        """
        return {
            "clock": round(self._clock, 6),
            "step_columns": STEP_COLUMNS,
            "request_columns": REQUEST_COLUMNS,
            "gap_buckets": {"shortest": SHORTEST, "per_decade": PER_DECADE, "count": NUM_BUCKETS},
            "models": self._models,
            "queues": self._queues,
            "steps": list(self._steps),
            "requests": [*self._ended, *self._live.values()],
            "cache": [pool for own in self._maps.values() for pool in own],
            "memory": self._memory,
        }


def _live(samples: list[ActivitySample]) -> Iterable[Request]:
    return (request for sample in samples for request in sample.live)
