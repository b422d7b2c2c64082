"""`Listener`: who plays the sound of a session's messages."""

from __future__ import annotations


class Listener:
    """Is taken to play sound as soon as it comes, one piece after the other. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._ends_at = 0.0  # when all that has come will have been played

    def play(self, seconds: float, now: float) -> float:
        """More sound has come: the seconds until the first of it is played."""
        wait = self.remaining(now)
        self._ends_at = now + wait + seconds
        return wait

    def remaining(self, now: float) -> float:
        """Seconds that are still to be played."""
        return max(0.0, self._ends_at - now)

    def stop(self, now: float) -> None:
        """What has not been played yet is dropped."""
        self._ends_at = min(self._ends_at, now)
