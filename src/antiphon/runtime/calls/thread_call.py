"""`ThreadCall`: a call with a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from antiphon.engine.core import describe
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.events import Accepted, Event
from antiphon.runtime.calls.sinks import Sink


class ThreadCall(ABC):
    """A call in its own thread. Create it, prepare it, then `start` it.

    The last event is the return value of `_work`, or the error that it raises.
    """

    id_prefix: str

    def __init__(self, call_id: str, sink: Sink) -> None:
        self.id = call_id
        self._sink = sink

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"antiphon-{self.id_prefix}", daemon=True)
        self._thread.start()

    def _start_accepted(self) -> None:
        """Emit `Accepted` for a caller in another process, and start."""
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
        """Subject of the error message if the call fails."""

    @abstractmethod
    def _work(self) -> Event:
        """Emit all events but the last, and return the last."""
