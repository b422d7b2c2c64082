"""`TextFeed`: text that is appended to while it is being spoken."""

from __future__ import annotations

import threading
from collections.abc import Callable

from antiphon.errors import InvalidRequestError


class TextFeed:
    """Text that is appended while it is being spoken, until `finish`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early: list[str | None] = []
        self._listener: Callable[[str | None], None] | None = None
        self._is_finished = False

    def push(self, text: str) -> None:
        """Append to the text."""
        if self._is_finished:
            raise InvalidRequestError("text was appended to a synthesis whose text had been finished")
        self._put(text)

    def finish(self) -> None:
        """Declare the text complete. May be called twice."""
        if not self._is_finished:
            self._is_finished = True
            self._put(None)

    def _put(self, text: str | None) -> None:
        with self._lock:
            if self._listener is None:
                self._early.append(text)
            else:
                self._listener(text)

    def listen(self, listener: Callable[[str | None], None]) -> None:
        """Pass every appended text, from the first on, to `listener`, and None at the end."""
        with self._lock:
            if self._listener is not None:
                raise InvalidRequestError("this text is being spoken already")
            self._listener = listener
            for text in self._early:
                listener(text)
