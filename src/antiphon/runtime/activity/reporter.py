"""`ActivityReporter`: a thread that reports an engine's activity while there is a listener."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.errors import AntiphonError
from antiphon.runtime.activity.report import MAX_ENDED, MAX_STEPS, ActivityReport
from antiphon.runtime.activity.sample import ActivitySample, ActivitySampler
from antiphon.runtime.frontend.lane import DetectorLane
from antiphon.runtime.frontend.loop import EngineLoop

#: Minimum seconds between reports, each of which needs one short call in the engine's thread.
INTERVAL_SECONDS = 0.1
#: Minimum seconds between two counts of tokens, two maps of the cache, and two memory readings.
SECONDS = {"counts": 0.5, "cache": 0.5, "memory": 1.0}

encode = msgspec.json.Encoder().encode


class ActivityReporter:
    """Thread that reports an engine's activity as JSON through `send`.

    `send` receives an id and a report: a snapshot for each id that asked, and later changes under an empty id. `memory`
    returns the memory by device and model; it is called in the engine's thread. Reports are made of telemetry and
    records that the engine keeps in any case, so a step costs nothing more.
    """

    def __init__(
        self,
        loop: EngineLoop,
        detectors: DetectorLane,
        memory: Callable[[], dict[str, Any]],
        send: Callable[[str, bytes], None],
    ) -> None:
        self._loop = loop
        self._detectors = detectors
        self._memory = memory
        self._send = send
        self._changed = threading.Condition()
        self._asked: list[str] = []
        self._thread: threading.Thread | None = None

    def watch(self, listener: str) -> None:
        """Send a snapshot under this id soon, and changes from then on."""
        with self._changed:
            self._asked.append(listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="antiphon-activity", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Stop reporting. Return at once."""
        with self._changed:
            self._thread = None
            self._asked.clear()
            self._changed.notify()

    def _run(self) -> None:
        own = threading.current_thread()
        rounds = _Rounds(self._loop, self._detectors, self._memory)
        is_first = True
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._thread is not own, INTERVAL_SECONDS)
                if self._thread is not own:
                    return
                asked, self._asked = self._asked, []
            try:
                news = rounds.take(time.monotonic(), must=bool(asked))
            except AntiphonError:  # the engine has ended
                return
            with self._changed:
                if self._thread is not own:  # nothing is sent after `stop`
                    return
                if news is not None and not is_first:
                    self._send("", encode(news))
                for listener in asked:
                    self._send(listener, encode(rounds.report.snapshot()))
            is_first = False


class _Rounds:
    """Sampler of both loops when something is new; it takes counts, maps and memory less often than the rest."""

    def __init__(self, loop: EngineLoop, detectors: DetectorLane, memory: Callable[[], dict[str, Any]]) -> None:
        self._loop = loop
        self._detectors = detectors
        self._memory = memory
        self._models = ActivitySampler(loop.core, MAX_STEPS, MAX_ENDED)
        self._detections = ActivitySampler(detectors.core)
        self._due = dict.fromkeys(SECONDS, 0.0)
        self._owed: set[str] = set()  # kinds that have changed since they were last reported
        self.report = ActivityReport()

    def take(self, now: float, must: bool) -> dict[str, Any] | None:
        """Return the changes since the last round, or None. With `must`, everything is sampled.

        Waits for the step that is running.
        """
        has_news = self._models.has_news() or self._detections.has_news()
        if must or has_news:
            self._owed |= set(SECONDS)
        due = {name for name in self._owed if must or now >= self._due[name]}
        if not (has_news or due):
            return None
        samples, memory = self._loop.call(lambda: self._sample("cache" in due, "memory" in due)).result()
        detections = self._detectors.read(lambda _: self._detections.take(with_caches=False))
        if detections is not None:
            samples.append(detections)
        self._owed -= due
        self._due |= {name: now + SECONDS[name] for name in due}
        news = self.report.update(samples, with_counts="counts" in due, with_caches="cache" in due, memory=memory)
        return news if len(news) > 1 else None  # more than the clock

    def _sample(self, with_caches: bool, with_memory: bool) -> tuple[list[ActivitySample], dict[str, Any] | None]:
        """Sample in the engine's thread."""
        return [self._models.take(with_caches)], self._memory() if with_memory else None
