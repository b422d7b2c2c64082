"""State of running requests between steps, by row: block tables, last token, sampling parameters."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon import ops
from antiphon.engine.plan import StepPlan
from antiphon.executor.draft_rows import DraftRows
from antiphon.executor.row_layout import Column, RowLayout
from antiphon.ops import CacheLayout, SamplingRows


class RowStore:
    """Rows in the CPU's memory, one array for each column. A step reads the rows of its requests.

    The arrays are views of `words`, one int32 array that `layout` describes.
    """

    def __init__(self, max_rows: int, layouts: list[CacheLayout], max_tokens: list[int]) -> None:
        self.layouts = layouts
        widths = [-(-tokens // layout.block_tokens) + 1 for layout, tokens in zip(layouts, max_tokens, strict=True)]
        self.layout = RowLayout(max_rows, widths, by_row=False)
        self.words = torch.zeros(self.layout.num_words, dtype=torch.int32)
        self._whole = whole = self.words.numpy()

        def view(column: Column, dtype: type[np.generic] = np.int32) -> NDArray[np.generic]:
            return whole[column.offset : column.offset + max_rows * column.words].view(dtype)

        columns = self.layout.columns
        self.tables = [view(table).reshape(max_rows, table.words) for table in self.layout.tables]
        self.last_token = view(columns["last_token"])
        self.temperature = view(columns["temperature"], np.float32)
        self.top_k = view(columns["top_k"])
        self.top_p = view(columns["top_p"], np.float32)
        self.min_p = view(columns["min_p"], np.float32)
        self.seed = view(columns["seed"], np.int64)
        self.output_index = view(columns["output_index"], np.int64)
        self.cross_tokens = view(columns["cross_tokens"])
        self.adapter = view(columns["adapter"])

    def apply(self, plan: StepPlan) -> None:
        """Apply the plan's changes of tables and rows, word by word, since they are few."""
        if plan.table_updates or plan.row_setups:
            whole = self._whole
            for index, value in self.layout.words(plan).items():
                whole[index] = value

    def draw(
        self, rows: NDArray[np.int64], logits: Tensor, logprobs: bool, drafts: DraftRows | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Sample a token for each row with the row's parameters, and store it as the row's last token.

        With drafts, `rows` repeats a row for each token that it may keep; the last kept token is stored.
        """
        columns = (self.temperature, self.top_k, self.top_p, self.min_p, self.seed)
        index = self.output_index[rows].astype(np.int64)
        if drafts is not None:
            index += drafts.offsets
        parameters = SamplingRows(*(torch.from_numpy(values) for values in (*(c[rows] for c in columns), index)))
        drawn, found = ops.sample(logits, parameters, logprobs=logprobs)
        last = slice(None) if drafts is None else drafts.last_kept(drawn).numpy()
        self.last_token[rows[last]] = drawn.numpy()[last]
        self.output_index[rows[last]] = index[last] + 1
        return drawn, found
