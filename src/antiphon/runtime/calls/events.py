"""Events that a call to the engine emits, for every kind of caller: text, segments, sound, and its end.

A call is one object of the class that its task declares (`runtime/calls/tasks.py`). It emits events to a sink under its
id; sinks differ in where the reader is (`runtime/calls/sinks.py`, `process/channel.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from antiphon.audio.samples import Floats
from antiphon.errors import AntiphonError


class CallEvent:
    """Base of all events except text and errors. A subclass is a dataclass that msgspec can encode."""


class FinalEvent(CallEvent):
    """Base of the events after which a call, or a sample, emits nothing more."""


class TextDelta(NamedTuple):
    """Text that one sample gained since its last delta. A slow reader receives fewer and larger deltas.

    With `SamplingParams.logprobs` it has the log-probabilities of its tokens, including the end token.
    """

    id: str
    text: str
    token_ids: list[int]
    logprobs: list[float] = []  # noqa: RUF012  (never changed; mypy and msgspec take no factory here)
    top_logprobs: list[list[tuple[int, float]]] = []  # noqa: RUF012


@dataclass(frozen=True)
class Ended(FinalEvent):
    """The end of one sample, after its last delta. Times are in seconds."""

    id: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    error: str | None = None
    queue: float = 0.0
    time_to_first_token: float = 0.0
    time_per_output_token: float = 0.0
    total: float = 0.0
    #: Seconds between consecutive tokens.
    gaps: list[float] = field(default_factory=list)
    preemptions: int = 0
    prompt_logprobs: list[float] = field(default_factory=list)
    prompt_top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    #: Rank of each prompt token, 1 for the likeliest; with `SamplingParams.prompt_top_logprobs`.
    prompt_ranks: list[int] = field(default_factory=list)
    #: Stop string that ended the sample.
    stop_string: str | None = None
    #: Number of draft tokens computed, and number of them accepted into the answer.
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    #: The same numbers by position in the draft, from the first on.
    drafted_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Embeddings(FinalEvent):
    """A vector of shape [width] for each text, in order."""

    vectors: Floats  # [texts, width]
    prompt_tokens: int


@dataclass(frozen=True)
class Accepted(CallEvent):
    """The first event: the engine process has accepted the call, which waits or runs. Recordings emit none."""


@dataclass(frozen=True)
class PieceRead(CallEvent):
    """A chunk of a recording that is sent while it is transcribed was used: another may follow."""


Event = TextDelta | CallEvent | AntiphonError

#: Events after which a call, or a sample, emits nothing more.
FINAL_EVENTS = (FinalEvent, AntiphonError)
