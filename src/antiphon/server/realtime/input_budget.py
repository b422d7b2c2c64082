"""`InputBudget`: how much sound a session may send, in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from antiphon.server.realtime.wire_errors import WireError

#: Sound may come this much faster than it is spoken: all of it is held until it has been heard.
MAX_AHEAD_SECONDS = 600.0
#: A turn that the client ends itself is held until then.
MAX_TURN_SECONDS = 600.0


class InputBudget:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ahead = 0.0
        self._since = clock()
        self._held = 0.0

    def add(self, seconds: float, *, is_kept: bool) -> None:
        """Count sound that is appended; `is_kept` until `taken`. Raises if it is too much, and counts nothing then."""
        now = self._clock()
        self._ahead = max(0.0, self._ahead - (now - self._since))
        self._since = now
        if self._ahead + seconds > MAX_AHEAD_SECONDS:
            message = (
                f"the sound is {self._ahead + seconds:.0f} s ahead of real time; at most {MAX_AHEAD_SECONDS:.0f} s are "
                "allowed: send it more slowly"
            )
            raise WireError(message, "audio", "input_audio_buffer_full")
        if is_kept and self._held + seconds > MAX_TURN_SECONDS:
            message = (
                f"the buffer would have {self._held + seconds:.0f} s of sound; at most {MAX_TURN_SECONDS:.0f} s are "
                "allowed: commit or clear it"
            )
            raise WireError(message, "audio", "input_audio_buffer_full")
        self._ahead += seconds
        self._held = self._held + seconds if is_kept else 0.0

    def taken(self) -> None:
        """The buffer was committed or cleared."""
        self._held = 0.0
