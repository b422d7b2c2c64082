"""`Listener`: an estimate of when the sound of a session's messages is played."""

from __future__ import annotations


class Listener:
    """Estimate of playback: sound plays as soon as it comes, one chunk after the other.

    Times are seconds of one clock.
    """

    def __init__(self) -> None:
        self._ends_at = 0.0  # when all sound so far will have been played

    def play(self, seconds: float, now: float) -> float:
        """Add `seconds` of sound that has come; return the seconds until its first sample is played."""
        wait = self.remaining(now)
        self._ends_at = now + wait + seconds
        return wait

    def remaining(self, now: float) -> float:
        """Return the seconds of sound still to be played."""
        return max(0.0, self._ends_at - now)

    def stop(self, now: float) -> None:
        """Discard sound that has not been played yet."""
        self._ends_at = min(self._ends_at, now)
