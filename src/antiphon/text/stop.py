"""Stop strings over a stream of text."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.errors import InvalidRequestError


class StopStrings:
    """A filter that passes text on until a stop string is complete.

    The stop string that is complete first ends the stream, the longest if several end at once; neither it nor any text
    after it is passed on. Text that may begin a stop string is held back until that is decided. The output does not
    depend on how the text is split into pushes.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise InvalidRequestError("a stop string is empty")
        self._stops = tuple(dict.fromkeys(stops))
        self._held = ""
        self.stopped: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        """Return the text to show now, and whether a stop string was reached; text after it is never shown."""
        if self.stopped is not None:
            return "", True
        self._held += text
        match = self._first_match()
        if match is not None:
            start, self.stopped = match
            emitted, self._held = self._held[:start], ""
            return emitted, True
        keep = self._held_length()
        cut = len(self._held) - keep
        emitted, self._held = self._held[:cut], self._held[cut:]
        return emitted, False

    def flush(self) -> str:
        """End the stream and return the text that was held back: it was not a stop string."""
        emitted, self._held = self._held, ""
        return emitted

    def _first_match(self) -> tuple[int, str] | None:
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if not found:
            return None
        _, start, stop = min(found)
        return start, stop

    def _held_length(self) -> int:
        """Return the length of the longest suffix of the held text that begins a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0
