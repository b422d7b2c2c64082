"""`GapCounts`: gaps between the tokens of requests, counted on a logarithmic scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from antiphon.engine.request import Request
from antiphon.engine.telemetry import RequestRecord

#: Scale of the buckets: bucket n starts at `SHORTEST` seconds times 10 to the power n / `PER_DECADE`. The first bucket
#: includes shorter gaps.
SHORTEST = 1e-4
PER_DECADE = 20
NUM_BUCKETS = 7 * PER_DECADE


def bucket(seconds: float) -> int:
    if seconds <= SHORTEST:
        return 0
    return min(NUM_BUCKETS - 1, int(PER_DECADE * math.log10(seconds / SHORTEST)))


class GapCounts:
    """Counter of gaps that remembers how many tokens of each open request it has counted."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Request, int]] = {}

    def take(self, live: Iterable[Request], ended: Iterable[RequestRecord]) -> dict[str, list[list[int]]]:
        """Return pairs of a bucket and its number of new gaps, for each model with new gaps."""
        found: dict[str, Counter[int]] = {}
        known, self._open = self._open, {}
        for request in live:
            _, seen = known.pop(request.id, (request, 0))
            self._open[request.id] = (request, _count(request, seen, found))
        for request, seen in known.values():  # these requests have ended since
            _count(request, seen, found)
        for record in ended:  # a request that was never seen open contributes its mean gap only
            if record.id not in known and record.id not in self._open and record.output_tokens > 1:
                gaps = found.setdefault(record.model, Counter())
                gaps[bucket(record.time_per_output_token)] += record.output_tokens - 1
        return {model: [[index, count] for index, count in sorted(gaps.items())] for model, gaps in found.items()}


def _count(request: Request, seen: int, found: dict[str, Counter[int]]) -> int:
    """Count the gaps before the tokens after the first `seen`; return the number of tokens seen so far."""
    times = request.marks.tokens
    number = len(times)
    new = times[max(0, seen - 1) : number]
    if len(new) > 1:
        gaps = found.setdefault(request.model, Counter())
        for earlier, later in pairwise(new):
            gaps[bucket(later - earlier)] += 1
    return number
