"""Measurements of a request, and the latencies derived from them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class MeasuredRequest:
    """Record of a request, with times in seconds of one clock. `error` is the kind of failure; None for a whole answer.

    An arrival is a read of the connection that brought text: `arrival_chunks` chunks with `arrival_characters`
    characters in all.
    """

    started: float
    due: float
    ended: float = 0.0
    arrival_times: list[float] = field(default_factory=list)
    arrival_chunks: list[int] = field(default_factory=list)
    arrival_characters: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    #: Numbers of speculated tokens, if the server reports them.
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    timings: dict[str, float] = field(default_factory=dict)  # server's own timings, if it reports them
    error: str | None = None
    message: str = ""

    @property
    def num_chunks(self) -> int:
        return sum(self.arrival_chunks)

    @property
    def num_output_tokens(self) -> int:
        """Server's count, or the number of chunks if it reports none."""
        return self.num_chunks if self.completion_tokens is None else self.completion_tokens

    @property
    def time_to_first_token(self) -> float:
        """Seconds to the first text; to the end of an answer without text."""
        return (self.arrival_times[0] if self.arrival_times else self.ended) - self.started

    @property
    def end_to_end(self) -> float:
        return self.ended - self.started

    def tokens_per_arrival(self) -> list[int]:
        """Estimate the tokens of each arrival, at least one per chunk.

        The server reports only the total. Tokens beyond one per chunk are assigned, one by one, to the arrival with the
        most characters per token so far.
        """
        counts = list(self.arrival_chunks)
        spare = self.num_output_tokens - sum(counts)
        if spare <= 0 or not counts:
            return counts
        characters = self.arrival_characters
        heap = [(-characters[index] / count, index) for index, count in enumerate(counts)]
        heapq.heapify(heap)
        for _ in range(spare):
            _, index = heap[0]
            counts[index] += 1
            heapq.heapreplace(heap, (-characters[index] / counts[index], index))
        return counts

    @property
    def time_per_output_token(self) -> float | None:
        """Mean seconds per token after the first arrival; None if no token came later."""
        counts = self.tokens_per_arrival()
        later = sum(counts[1:])
        return (self.arrival_times[-1] - self.arrival_times[0]) / later if later else None

    def chunk_gaps(self) -> list[float]:
        """Return the seconds between arrivals, as a reader sees the text move."""
        return [later - earlier for earlier, later in pairwise(self.arrival_times)]

    def inter_token_gaps(self) -> list[float]:
        """Return a gap per token after the first arrival; tokens that arrived together share the gap before them."""
        gaps: list[float] = []
        for gap, count in zip(self.chunk_gaps(), self.tokens_per_arrival()[1:], strict=True):
            gaps += [gap / count] * count
        return gaps


def latencies(whole: Sequence[MeasuredRequest]) -> dict[str, list[float]]:
    """Return the seconds of each kind of latency, over a run's whole answers."""
    return {
        "ttft": [record.time_to_first_token for record in whole],
        "tpot": [value for record in whole if (value := record.time_per_output_token) is not None],
        "itl": [gap for record in whole for gap in record.inter_token_gaps()],
        "chunk_gap": [gap for record in whole for gap in record.chunk_gaps()],
        "e2e": [record.end_to_end for record in whole],
    }
