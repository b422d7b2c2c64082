"""`EnginePort`: what a call that makes requests of its own, one after the other, needs of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from antiphon.engine.request import FinishReason, Request
from antiphon.engine.telemetry import SpeechRecord, TranscriptRecord
from antiphon.runtime.calls.detectors import Detectors


class RequestLoop(Protocol):
    """The thread that runs the engine. Every method returns at once."""

    def add(self, requests: list[Request], on_done: Callable[[Future[None]], None] | None = None) -> Future[None]:
        """Hand requests in; the future raises the error that rejected them. Either all are taken or none.

        `on_done` is called before the next step.
        """

    def abort_all(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        """End requests together, between two steps."""


@dataclass(frozen=True)
class EnginePort:
    """`record` keeps what a whole call cost, for the trace."""

    loop: RequestLoop
    clock: Callable[[], float]
    record: Callable[[TranscriptRecord | SpeechRecord], None]
    detectors: Detectors
    batch_invariant: bool = False


class CallEngine(Protocol):
    """The front end that begins a call."""

    @property
    def port(self) -> EnginePort: ...
