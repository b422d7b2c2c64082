"""The measurements of one request, and the latencies that follow from them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class MeasuredRequest:
    """Times are seconds of one clock. `error` is the kind of failure; a record without one is a whole answer.

    An arrival is one read of the connection that brought text: `arrival_chunks` chunks with `arrival_characters`
    characters between them.
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
    #: Of speculation, where the server reports it.
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    timings: dict[str, float] = field(default_factory=dict)  # the server's own, where it reports them
    error: str | None = None
    message: str = ""

    @property
    def num_chunks(self) -> int:
        return sum(self.arrival_chunks)

    @property
    def num_output_tokens(self) -> int:
        """The server's count, or the number of chunks if it reports none."""
        return self.num_chunks if self.completion_tokens is None else self.completion_tokens

    @property
    def time_to_first_token(self) -> float:
        """To the first text. An answer without any text has it at its end."""
        return (self.arrival_times[0] if self.arrival_times else self.ended) - self.started

    @property
    def end_to_end(self) -> float:
        return self.ended - self.started

    def tokens_per_arrival(self) -> list[int]:
        """How many tokens each arrival brought: at least one per chunk.

        The server reports only the total. Tokens beyond one per chunk are given, one by one, to the arrival that has
        the most characters per token so far.
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
        """Of the tokens after the first arrival; None if there are none."""
        counts = self.tokens_per_arrival()
        later = sum(counts[1:])
        return (self.arrival_times[-1] - self.arrival_times[0]) / later if later else None

    def chunk_gaps(self) -> list[float]:
        """Between arrivals, as a reader would see the text move."""
        return [later - earlier for earlier, later in pairwise(self.arrival_times)]

    def inter_token_gaps(self) -> list[float]:
        """One for each token after the first arrival: tokens that came together share the gap before them."""
        gaps: list[float] = []
        for gap, count in zip(self.chunk_gaps(), self.tokens_per_arrival()[1:], strict=True):
            gaps += [gap / count] * count
        return gaps


def latencies(whole: Sequence[MeasuredRequest]) -> dict[str, list[float]]:
    """Seconds of each kind of latency, over the whole answers of a run."""
    return {
        "ttft": [record.time_to_first_token for record in whole],
        "tpot": [value for record in whole if (value := record.time_per_output_token) is not None],
        "itl": [gap for record in whole for gap in record.inter_token_gaps()],
        "chunk_gap": [gap for record in whole for gap in record.chunk_gaps()],
        "e2e": [record.end_to_end for record in whole],
    }
