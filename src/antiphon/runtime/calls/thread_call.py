"""`ThreadCall`: a call with a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from antiphon.engine.core import describe
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.events import Accepted, Event
from antiphon.runtime.calls.sinks import Sink


class ThreadCall(ABC):
    """Made, then prepared, then `start`ed. The last event is what `_work` returns, or the error that it raises."""

    id_prefix: str

    def __init__(self, call_id: str, sink: Sink) -> None:
        self.id = call_id
        self._sink = sink

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"antiphon-{self.id_prefix}", daemon=True)
        self._thread.start()

    def _start_accepted(self) -> None:
        """Start, and tell a caller in another process that the call was accepted."""
        self._sink.put(self.id, Accepted())
        self.start()

    def _run(self) -> None:
        try:
            outcome = self._work()
        except AntiphonError as error:
            outcome = error
        except Exception as error:
            outcome = EngineError(f"{self._subject} failed: {describe(error)}")
        self._sink.put(self.id, outcome)

    @property
    @abstractmethod
    def _subject(self) -> str:
        """The subject of the message about a failure."""

    @abstractmethod
    def _work(self) -> Event:
        """Emit all events but the last, and return that."""
