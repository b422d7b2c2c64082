"""Stop strings over a stream of text."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.errors import InvalidRequestError


class StopStrings:
    """Passes text through until a stop string is complete.

    The stop string that is complete first ends the stream, the longest where several end at once; neither it nor
    anything after it is passed on. Text that may be the beginning of a stop string is held back until that is decided.
    How the text is cut into pushes makes no difference to what is passed on in all.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise InvalidRequestError("a stop string is empty")
        self._stops = tuple(dict.fromkeys(stops))
        self._held = ""
        self.stopped: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        """What may be shown now, and whether a stop string has been reached; nothing is shown after one."""
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
        """End of the stream: what was held back was no stop string."""
        emitted, self._held = self._held, ""
        return emitted

    def _first_match(self) -> tuple[int, str] | None:
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if not found:
            return None
        _, start, stop = min(found)
        return start, stop

    def _held_length(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0
