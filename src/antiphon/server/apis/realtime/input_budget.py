"""`InputBudget`: limits the seconds of sound that a session may send ahead of its processing."""

from __future__ import annotations

import time
from collections.abc import Callable

from antiphon.server.apis.realtime.wire_errors import WireError

#: Maximum seconds of sound ahead of real time, all of which is held until it has been heard.
MAX_AHEAD_SECONDS = 300.0
#: Maximum seconds of a turn that the client ends itself, which is held until its end.
MAX_TURN_SECONDS = 600.0
#: Seconds ahead below which an append of up to LONGEST_APPEND_SECONDS, the maximum size as PCM, is accepted.
NOTHING_AHEAD_SECONDS = 1.0
LONGEST_APPEND_SECONDS = 328.0


class InputBudget:
    """Budget of one session. `waiting` returns the seconds of sound that wait until hearing is open."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, waiting: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._waiting = waiting
        self._ahead = 0.0
        self._since = clock()
        self._turn = 0.0

    @property
    def held(self) -> float:
        """Maximum seconds of sound that the server currently holds for the session."""
        return max(self._now_ahead(), self._turn, self._waiting())

    def add(self, seconds: float, *, is_kept: bool) -> None:
        """Count appended sound; with `is_kept`, until `taken` is called."""
        self._ahead = self._now_ahead() + seconds
        self._turn = self._turn + seconds if is_kept else 0.0

    def check(self, seconds: float, *, is_kept: bool) -> None:
        """Raise `WireError` if `add` would exceed a limit of the session."""
        ahead = self._now_ahead()
        is_alone = ahead < NOTHING_AHEAD_SECONDS and seconds <= LONGEST_APPEND_SECONDS
        if ahead + seconds > MAX_AHEAD_SECONDS and not is_alone:
            message = (
                f"the sound is {ahead + seconds:.0f} s ahead of real time; at most {MAX_AHEAD_SECONDS:.0f} s are "
                "allowed: send it more slowly"
            )
            raise WireError(message, "audio", "input_audio_buffer_full")
        if is_kept and self._turn + seconds > MAX_TURN_SECONDS:
            message = (
                f"the buffer would have {self._turn + seconds:.0f} s of sound; at most {MAX_TURN_SECONDS:.0f} s are "
                "allowed: commit or clear it"
            )
            raise WireError(message, "audio", "input_audio_buffer_full")

    def taken(self) -> None:
        """Stop counting the turn's sound, because the buffer was committed or cleared."""
        self._turn = 0.0

    def _now_ahead(self) -> float:
        now = self._clock()
        self._ahead = max(0.0, self._ahead - (now - self._since))
        self._since = now
        return self._ahead
