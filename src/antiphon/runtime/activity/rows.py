"""Steps and requests as rows of plain values: numbers, times and states, never a token or a text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from antiphon.engine.request import Request, RequestState
from antiphon.engine.telemetry import RequestRecord, StepRecord

#: Columns of a step. Starts are seconds of the engine's clock; durations, in total and of the parts, are microseconds.
STEP_COLUMNS = (
    "index",
    "model",
    "kind",
    "start",
    "microseconds",
    "decodes",
    "prefills",
    "prefill_tokens",
    "running",
    "waiting",
    "plan",
    "build",
    "run",
    "sample",
    "commit",
)
PARTS = STEP_COLUMNS[-5:]

#: Columns of a request. Times are seconds of the engine's clock, or null for events that have not happened.
REQUEST_COLUMNS = (
    "id",
    "model",
    "task",
    "priority",
    "state",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "preemptions",
    "arrived",
    "first_scheduled",
    "first_token",
    "finished",
    "finish_reason",
    "time_to_first_token",
    "time_per_output_token",
)

FINISH_REASON = REQUEST_COLUMNS.index("finish_reason")

#: Kind of step by the role of its slot; a decoder's step is a prefill, a decode or mixed.
KINDS = {"encoder": "encoder", "embedding": "embedding", "synthesis": "synthesis", "detector": "detection"}


def step_row(step: StepRecord, role: str) -> list[Any]:
    prefills = step.num_requests - step.decode_tokens
    kind = KINDS.get(role)
    if kind is None:
        kind = "mixed" if prefills and step.decode_tokens else "prefill" if prefills else "decode"
    return [
        step.index,
        step.model,
        kind,
        round(step.start, 6),
        round(step.seconds * 1e6),
        step.decode_tokens,
        prefills,
        step.prefill_tokens,
        step.running,
        step.waiting,
        *(round(step.parts.get(part, 0.0) * 1e6) for part in PARTS),
    ]


def live_row(request: Request) -> list[Any]:
    """Return the row of a request that has not ended, or that ended while its step is in flight."""
    row = ended_row(replace(RequestRecord.of(request), state=state_of(request)))
    if request.finish_reason is None:
        row[FINISH_REASON] = None
    return row


def ended_row(record: RequestRecord) -> list[Any]:
    return [
        record.id,
        record.model,
        record.task,
        record.priority,
        record.state,
        record.prompt_tokens,
        record.cached_tokens,
        record.output_tokens,
        record.preemptions,
        round(record.arrived, 6),
        _time(record.first_scheduled),
        _time(record.first_token),
        _time(record.finished),
        record.finish_reason,
        round(record.time_to_first_token, 6) if record.first_token else None,
        round(record.time_per_output_token, 6) if record.output_tokens > 1 and record.first_token else None,
    ]


def state_of(request: Request) -> str:
    """Return the request's state, or `preempted` or `swapped` if it waits after a preemption."""
    if request.state is RequestState.WAITING and request.marks.preemptions:
        return "swapped" if request.swapped else "preempted"
    return str(request.state)


def _time(seconds: float) -> float | None:
    return round(seconds, 6) if seconds else None
