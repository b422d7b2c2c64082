"""`RestartPolicy`: delays before a dead engine process is started again, and when to give up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RestartPolicy:
    """Restart delays: the first restart is immediate, the delay before later ones doubles from `first_delay`.

    It is at most `longest_delay_after_ready` for processes that had become ready, and `longest_delay` for others. A
    process that was ready for `stable_seconds` resets the count of deaths. Only failed starts lead to giving up:
    `min_failed_starts` in a row, over `give_up_seconds` or more.
    """

    first_delay: float = 0.5
    longest_delay: float = 30.0
    longest_delay_after_ready: float = 4.0
    stable_seconds: float = 60.0
    give_up_seconds: float = 300.0
    min_failed_starts: int = 3
    #: Number of consecutive deaths.
    num_deaths: int = 0
    #: Number of consecutive failed starts, and the time of the first of them.
    num_failed_starts: int = 0
    failing_since: float = 0.0

    def next_delay(self, now: float, ready_seconds: float | None) -> float | None:
        """Count a death; return the seconds to wait before the next start, or None to give up.

        `ready_seconds` is the time for which the process was ready, None if it never was.
        """
        if ready_seconds is not None and ready_seconds >= self.stable_seconds:
            self.num_deaths = 0
        self.num_deaths += 1
        if ready_seconds is not None:
            self.num_failed_starts = 0
            return self._delay(self.longest_delay_after_ready)
        if not self.num_failed_starts:
            self.failing_since = now
        self.num_failed_starts += 1
        has_tried = self.num_failed_starts >= self.min_failed_starts
        if has_tried and now - self.failing_since >= self.give_up_seconds:
            return None
        return self._delay(self.longest_delay)

    def _delay(self, longest: float) -> float:
        if self.num_deaths <= 1:
            return 0.0
        return min(self.first_delay * 2.0 ** min(self.num_deaths - 2, 32), longest)
