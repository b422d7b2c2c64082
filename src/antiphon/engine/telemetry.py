"""Recent steps and requests with their times, and a trace of them for timeline viewers."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from antiphon.engine.request import Request

MAX_STEPS = 10_000
MAX_REQUESTS = 10_000

Record = TypeVar("Record")


@dataclass(slots=True)
class StepRecord:
    """Measured step. Times are seconds of the engine's clock; the parts are plan, build, run, sample and commit."""

    index: int
    model: str
    start: float
    decode_tokens: int
    prefill_tokens: int
    running: int
    waiting: int
    blocks_free: int
    blocks_cached: int
    blocks_owned: int
    parts: dict[str, float]
    requests: list[tuple[str, int, bool]] = field(default_factory=list)  # id, tokens, whether it was a decode
    native_seconds: float = 0.0  # seconds of the run inside the native program
    stage: int = 0  # stage of the plan
    num_requests: int = 0  # requests that computed tokens
    drafted_tokens: int = 0  # drafted tokens, without the newest token of their requests

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())


@dataclass(slots=True)
class RequestRecord:
    id: str
    model: str
    task: str
    priority: str
    state: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    preemptions: int
    arrived: float
    first_scheduled: float
    first_token: float
    finished: float
    queue_wait: float
    time_to_first_token: float
    time_per_output_token: float
    end_to_end: float

    @classmethod
    def of(cls, request: Request) -> RequestRecord:
        marks = request.marks
        return cls(
            id=request.id,
            model=request.model,
            task=request.task,
            priority=request.priority.name.lower(),
            state=str(request.state),
            finish_reason=str(request.finish_reason),
            prompt_tokens=request.num_prompt_tokens,
            output_tokens=request.num_output_tokens,
            cached_tokens=request.num_cached_tokens,
            preemptions=marks.preemptions,
            arrived=marks.arrived,
            first_scheduled=marks.first_scheduled,
            first_token=marks.tokens[0] if marks.tokens else 0.0,
            finished=marks.finished,
            queue_wait=marks.queue_wait,
            time_to_first_token=marks.time_to_first_token,
            time_per_output_token=marks.time_per_output_token,
            end_to_end=marks.end_to_end,
        )


@dataclass(slots=True)
class SpeechRecord:
    """Finished synthesis of a text; its utterances are requests of their own."""

    id: str
    model: str
    arrived: float
    audio_seconds: float
    processing_seconds: float
    real_time_factor: float
    time_to_first_audio: float
    worst_deficit: float
    clauses: int


@dataclass(slots=True)
class TranscriptRecord:
    """Finished transcription of a recording; its windows are requests of their own."""

    id: str
    model: str
    arrived: float
    audio_seconds: float
    processing_seconds: float
    real_time_factor: float
    time_to_first_text: float | None
    windows: int
    fallbacks: int
    output_tokens: int


class Telemetry:
    """Most recent steps and ended requests, in bounded memory."""

    def __init__(self) -> None:
        self.steps: deque[StepRecord] = deque(maxlen=MAX_STEPS)
        self.requests: deque[RequestRecord] = deque(maxlen=MAX_REQUESTS)
        self.transcripts: deque[TranscriptRecord] = deque(maxlen=MAX_REQUESTS)
        self.speeches: deque[SpeechRecord] = deque(maxlen=MAX_REQUESTS)
        #: Counts since the engine started, including records that were discarded.
        self.num_steps = 0
        self.num_arrivals = 0
        self.num_ended = 0

    def add_step(self, record: StepRecord) -> None:
        self.steps.append(record)
        self.num_steps += 1

    def add_request(self, request: Request) -> None:
        self.requests.append(RequestRecord.of(request))
        self.num_ended += 1

    def steps_since(self, number: int) -> list[StepRecord]:
        """Return the kept steps from the given number on, oldest first."""
        return _last(self.steps, self.num_steps - number)

    def requests_since(self, number: int) -> list[RequestRecord]:
        """Return the kept requests from the given number on, in the order in which they ended."""
        return _last(self.requests, self.num_ended - number)

    def write_trace(self, path: Path) -> None:
        """Write the records as Chrome trace events, with one lane per model and one per request."""
        trace = _Trace()
        _add_steps(trace, self.steps)
        _add_requests(trace, self.requests)
        for speech in self.speeches:
            trace.add("speech", "speech", speech.id, speech.arrived, speech.processing_seconds, asdict(speech))
        for record in self.transcripts:
            trace.add("transcript", "transcripts", record.id, record.arrived, record.processing_seconds, asdict(record))
        path.write_text(json.dumps({"traceEvents": trace.events, "displayTimeUnit": "ms"}))


def _last(records: deque[Record], count: int) -> list[Record]:
    found = list(islice(reversed(records), max(0, count)))
    found.reverse()
    return found


class _Trace:
    """Events in the Trace Event Format, in which metadata events name numbered processes and lanes."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._processes: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], int] = {}

    def add(
        self, name: str, process: str, lane: str, start: float, seconds: float, arguments: dict[str, Any] | None = None
    ) -> None:
        ids = self._ids(process, lane)
        microseconds = {"ts": round(start * 1e6, 1), "dur": round(max(seconds, 0.0) * 1e6, 1)}
        self.events.append({"name": name, "ph": "X", **ids, **microseconds, "args": arguments or {}})

    def _ids(self, process: str, lane: str) -> dict[str, int]:
        if process not in self._processes:
            self._processes[process] = len(self._processes) + 1
            self._name("process_name", process, {"pid": self._processes[process], "tid": 0})
        pid = self._processes[process]
        if (process, lane) in self._lanes:
            return {"pid": pid, "tid": self._lanes[process, lane]}
        ids = {"pid": pid, "tid": len(self._lanes) + 1}
        self._lanes[process, lane] = ids["tid"]
        self._name("thread_name", lane, ids)
        return ids

    def _name(self, kind: str, name: str, ids: dict[str, int]) -> None:
        self.events.append({"name": kind, "ph": "M", "ts": 0, **ids, "args": {"name": name}})


def _add_steps(trace: _Trace, steps: Iterable[StepRecord]) -> None:
    for step in steps:
        figures = asdict(step)
        parts, requests = figures.pop("parts"), figures.pop("requests")
        trace.add("step", "models", step.model, step.start, step.seconds, figures)
        begin = step.start
        for part, seconds in parts.items():
            trace.add(part, "models", step.model, begin, seconds)
            begin += seconds
        # A request ends when the result is available, so its part of the step excludes the commit.
        until_result = step.seconds - parts.get("commit", 0.0)
        for request, tokens, is_decode in requests:
            phase = "decode" if is_decode else "prefill"
            figures = {"tokens": tokens, "step": step.index}
            trace.add(phase, "requests", request, step.start, until_result, figures)


def _add_requests(trace: _Trace, requests: Iterable[RequestRecord]) -> None:
    for record in requests:
        trace.add("request", "requests", record.id, record.arrived, record.end_to_end, asdict(record))
        if record.queue_wait:
            trace.add("queued", "requests", record.id, record.arrived, record.queue_wait)
