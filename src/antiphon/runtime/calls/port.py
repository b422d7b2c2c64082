"""`EnginePort`: access to an engine for calls that submit their own requests, one after the other."""

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
        """Submit requests, all or none; the future raises the error that rejected them.

        `on_done` is called before the next step.
        """

    def abort_all(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        """End requests together, between two steps."""


@dataclass(frozen=True)
class EnginePort:
    """Access to an engine. `record` stores the cost of a whole call, for the trace."""

    loop: RequestLoop
    clock: Callable[[], float]
    record: Callable[[TranscriptRecord | SpeechRecord], None]
    detectors: Detectors
    batch_invariant: bool = False


class CallEngine(Protocol):
    """The front end that begins calls."""

    @property
    def port(self) -> EnginePort: ...
