"""`DraftRows`: the rows of logits of a step in which requests have drafts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.upload import upload

#: Stands for the token behind a draft's last: no token that is drawn is equal to it.
NO_TOKEN = -1


@dataclass(frozen=True)
class DraftRows:
    """For every row that a token is drawn from, in order: its index in the draft of its entry, and the token there.

    An entry has a row more than its draft has tokens; one without a draft has a row. A row's token is the request's if
    those of all rows before it were the draft's, so an entry keeps its rows up to the first that differs.
    """

    entries: list[int]
    offsets: NDArray[np.int64]
    expected: NDArray[np.int32]
    #: The first row of every entry.
    firsts: NDArray[np.int64]

    @classmethod
    def of(cls, plan: StepPlan, entries: list[int]) -> DraftRows:
        """Of the entries that draw tokens."""
        drafts = [plan.drafts.get(entry, []) for entry in entries]
        counts = np.array([len(draft) + 1 for draft in drafts], dtype=np.int64)
        firsts = np.cumsum(counts) - counts
        return cls(
            np.repeat(np.asarray(entries), counts).tolist(),
            np.arange(counts.sum()) - np.repeat(firsts, counts),
            np.array([token for draft in drafts for token in (*draft, NO_TOKEN)], dtype=np.int32),
            firsts,
        )

    def ahead(self, plan: StepPlan, row: int) -> list[int]:
        """The drafted tokens before a row's."""
        return plan.drafts.get(self.entries[row], [])[: self.offsets[row]]

    def end_before(self, row: int) -> None:
        """The draft cannot be followed to this row: its entry keeps the rows before it at most."""
        assert self.offsets[row] > 0, "the first row of an entry does not depend on a draft"
        self.expected[row - 1] = NO_TOKEN

    def last_kept(self, drawn: Tensor) -> Tensor:
        """The row of each entry whose token is the last that it keeps. Nothing waits for the device."""
        count, device = len(drawn), drawn.device
        rows = torch.arange(count, device=device)
        differs = drawn.to(torch.int32) != upload(self.expected, device)
        stops = torch.where(differs, rows, count).flip(0).cummin(0).values.flip(0)  # at or behind each row
        return stops[upload(self.firsts, device)]

    def num_kept(self, drawn: NDArray[np.integer]) -> dict[int, int]:
        """How many tokens every entry with more rows than one keeps."""
        stops = np.flatnonzero(drawn != self.expected)
        kept = stops[np.searchsorted(stops, self.firsts)] - self.firsts + 1
        sizes = np.diff(self.firsts, append=len(self.expected))
        return {
            self.entries[first]: int(count)
            for first, count, size in zip(self.firsts.tolist(), kept, sizes, strict=True)
            if size > 1
        }
