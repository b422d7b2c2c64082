"""`DeviceRows`: the state of running requests, by row, in a GPU's memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon import ops
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import Request
from antiphon.executor.draft_rows import DraftRows
from antiphon.executor.row_layout import RowLayout
from antiphon.executor.upload import upload
from antiphon.ops import CacheKind, CacheLayout, SamplingRows
from antiphon.ops.triton.program.rows import StepRows


class DeviceRows:
    """Rows in one int32 array, row after row. A plan's changes are uploaded as one array of pairs, if there are any.

    Kernels advance the lengths and output indices of rows and write their last tokens.
    """

    def __init__(self, max_rows: int, layouts: list[CacheLayout], max_tokens: list[int], device: torch.device) -> None:
        self.layouts = layouts
        self.device = device
        widths = [-(-tokens // layout.block_tokens) + 1 for layout, tokens in zip(layouts, max_tokens, strict=True)]
        self.layout = RowLayout(max_rows, widths, by_row=True)
        self._left: set[int] = set()
        self.words = torch.zeros(max_rows, self.layout.width, dtype=torch.int32, device=device)
        self.tables = [self.words[:, table.offset : table.offset + table.words] for table in self.layout.tables]
        self.last_token, self.length = self.column("last_token"), self.column("length")
        self.output_index = self.column("output_index", torch.int64)
        self.cross_tokens, self.adapter = self.column("cross_tokens"), self.column("adapter")

    def column(self, name: str, dtype: torch.dtype = torch.int32) -> Tensor:
        """Return a column of all rows, as a view."""
        column = self.layout.columns[name]
        return self.words[:, column.offset : column.offset + column.words].view(dtype)[:, 0]

    def as_step_rows(self) -> StepRows:
        """Return the same words in the form that the steps of `ops/triton/program` read."""
        groups = [layout.group for layout in self.layouts]
        columns = {name: column.offset for name, column in self.layout.columns.items()}
        tables = {group.name: table.offset for group, table in zip(groups, self.layout.tables, strict=True)}
        cross = frozenset(group.name for group in groups if group.kind is CacheKind.CROSS)
        return StepRows(self.words, columns, tables, cross)

    def leave(self, rows: Iterable[int]) -> None:
        """Mark rows that the plan's step does not advance: `apply` sets them when their requests are computed next."""
        self._left.update(rows)

    def apply(self, plan: StepPlan) -> None:
        """Apply the plan's changes of tables and rows."""
        stale: list[Request] = []
        if self._left:
            self._left.difference_update([setup.request.row for setup in plan.row_setups])
            stale = [request for request in plan.requests if request.row in self._left]
            self._left.difference_update([request.row for request in stale])
        changes = self.layout.changes(plan, stale)
        if len(changes):
            ops.scatter_words(self.words.view(-1), upload(changes, self.device))

    def draw(
        self, rows: NDArray[np.int64], logits: Tensor, logprobs: bool, drafts: DraftRows | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Sample a token for each row with the row's parameters, and store it as the row's last token.

        With drafts, `rows` repeats a row for each token that it may keep: the last kept token is stored, and the row's
        length grows by the drafted tokens that are kept.
        """
        at = upload(rows, self.device)
        floats = (self.column(name, torch.float32)[at] for name in ("temperature", "top_p", "min_p"))
        temperature, top_p, min_p = floats
        seed, index = self.column("seed", torch.int64)[at], self.output_index[at]
        if drafts is not None:
            index = index + upload(drafts.offsets, self.device)
        parameters = SamplingRows(temperature, self.column("top_k")[at], top_p, min_p, seed, index)
        drawn, found = ops.sample(logits, parameters, logprobs=logprobs)
        if drafts is None:
            self.last_token[at] = drawn.to(torch.int32)
            self.output_index[at] = index + 1
        else:
            last = drafts.last_kept(drawn)
            kept = last - upload(drafts.firsts, self.device)
            self.last_token[at[last]] = drawn[last].to(torch.int32)
            self.output_index[at[last]] = index[last] + 1
            self.length[at[last]] += kept.to(torch.int32)
        return drawn, found
