"""Toy task with all the parts of a real one: counts a letter in text that is sent while the call runs.

CONTRIBUTING.md names the files that hold these parts of a real task.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from antiphon.engine.request import FinishReason
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import Accepted, CallEvent, FinalEvent
from antiphon.runtime.calls.port import CallEngine
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.calls.tasks import CallThreads, TaskRequest
from support.engine.forked_engine import ForkedClient, ForkedEngineProcess

# -- the declaration: events, control, request --------------------------------------------------------------------


@dataclass(frozen=True)
class LetterCounted(CallEvent):
    """Occurrences of the letter in the text just added."""

    text: str
    count: int


@dataclass(frozen=True)
class CountEnded(FinalEvent):
    """Occurrences of the letter in all texts."""

    total: int


class CountControl(CallControl, Protocol):
    def add(self, text: str, times: int = 1) -> None:
        """Count the letter in `times` repetitions of a text."""

    def finish(self) -> None:
        """End the text; `CountEnded` follows."""


class CountLetters(TaskRequest, frozen=True):
    """Request to count a letter in the text that follows."""

    implementation: ClassVar[str] = "support.engine.counting_task:CountCall"
    yields: ClassVar[tuple[type, ...]] = (LetterCounted, CountEnded)
    control: ClassVar[type] = CountControl

    letter: str

    @property
    def begins_in(self) -> CallThreads | None:
        return None


# -- the front end's implementation ------------------------------------------------------------------------------


class CountCall:
    """Call that emits `LetterCounted` per text, and finally `CountEnded` or an error."""

    id_prefix = "count"
    _letter: str

    def __init__(self, call_id: str, sink: Sink) -> None:
        self.id = call_id
        self._sink = sink
        self._total = 0

    def begin(self, engine: CallEngine, request: CountLetters) -> None:
        if len(request.letter) != 1:
            raise InvalidRequestError(f"letter is {request.letter!r}; it must be one letter")
        self._letter = request.letter
        self._sink.put(self.id, Accepted())

    def add(self, text: str, times: int = 1) -> None:
        if not text.isascii():
            self._sink.put(self.id, InvalidRequestError(f"text is {text!r}; it must be ASCII"))
            return
        count = text.count(self._letter) * times
        self._total += count
        self._sink.put(self.id, LetterCounted(text, count))

    def finish(self) -> None:
        self._sink.put(self.id, CountEnded(self._total))

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._sink.put(self.id, EngineError(f"the count was {reason} at {self._total}"))


# -- the client's reader and public method -----------------------------------------------------------------------


class AsyncCount(AsyncReader[LetterCounted | CountEnded]):
    """Asynchronous iterator of counts, the last of which is `CountEnded`."""

    _control: CountControl

    def add(self, text: str, times: int = 1) -> None:
        self._control.add(text, times)

    def finish(self) -> None:
        self._control.finish()

    def cancel(self) -> None:
        """End the call; events already emitted can still be read."""
        self._control.cancel()


class CountingProcess(ForkedEngineProcess):
    before = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from antiphon.runtime.calls.tasks import TASKS
from support.engine.counting_task import CountLetters
TASKS.append(CountLetters)
"""


class CountingClient(ForkedClient):
    process_class = CountingProcess

    def count(self, request: CountLetters) -> AsyncCount:
        """Open a call that counts a letter in the text added to it."""
        return self._open(request, AsyncCount)
