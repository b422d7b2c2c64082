"""`DraftRows`: the rows of logits that a step with drafts samples from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.upload import upload

#: Expected token after a draft's last: different from every sampled token.
NO_TOKEN = -1


@dataclass(frozen=True)
class DraftRows:
    """Rows that tokens are sampled from, in order, with the drafted token that each should equal.

    An entry has one row more than its draft has tokens. A row's token belongs to the request if all earlier rows of the
    entry sampled the drafted tokens, so an entry keeps its rows up to and including the first that differs.
    """

    entries: list[int]  # entry of each row
    offsets: NDArray[np.int64]  # index of each row in its entry
    expected: NDArray[np.int32]  # drafted token of each row, NO_TOKEN in an entry's last
    firsts: NDArray[np.int64]  # first row of each entry

    @classmethod
    def of(cls, plan: StepPlan, entries: list[int]) -> DraftRows:
        """List the rows of the entries that sample tokens."""
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
        """Return the tokens of the entry's draft that precede a row."""
        return plan.drafts.get(self.entries[row], [])[: self.offsets[row]]

    def end_before(self, row: int) -> None:
        """End a draft before a row: its entry keeps at most the earlier rows."""
        assert self.offsets[row] > 0, "the first row of an entry does not depend on a draft"
        self.expected[row - 1] = NO_TOKEN

    def last_kept(self, drawn: Tensor) -> Tensor:
        """Return the last row that each entry keeps, without waiting for the device."""
        count, device = len(drawn), drawn.device
        rows = torch.arange(count, device=device)
        differs = drawn.to(torch.int32) != upload(self.expected, device)
        # The first row that differs, at or after each row.
        stops = torch.where(differs, rows, count).flip(0).cummin(0).values.flip(0)
        return stops[upload(self.firsts, device)]

    def num_kept(self, drawn: NDArray[np.integer]) -> dict[int, int]:
        """Return the number of tokens that each entry with a draft keeps."""
        stops = np.flatnonzero(drawn != self.expected)
        kept = stops[np.searchsorted(stops, self.firsts)] - self.firsts + 1
        sizes = np.diff(self.firsts, append=len(self.expected))
        return {
            self.entries[first]: int(count)
            for first, count, size in zip(self.firsts.tolist(), kept, sizes, strict=True)
            if size > 1
        }
