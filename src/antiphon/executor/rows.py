"""The state of running requests between steps, by row: block tables, last token, sampling parameters."""

from __future__ import annotations

import numpy as np

from antiphon.engine.plan import RowSetup, StepPlan
from antiphon.ops import CacheLayout


class RowStore:
    """Arrays over rows. A plan changes only what is new; a step reads the rows of its requests."""

    def __init__(self, max_rows: int, layouts: list[CacheLayout], max_tokens: list[int]) -> None:
        self.layouts = layouts
        widths = [-(-tokens // layout.block_tokens) for layout, tokens in zip(layouts, max_tokens, strict=True)]
        self.tables = [np.zeros((max_rows, width + 1), dtype=np.int32) for width in widths]
        self.last_token = np.zeros(max_rows, dtype=np.int32)
        self.temperature = np.zeros(max_rows, dtype=np.float32)
        self.top_k = np.zeros(max_rows, dtype=np.int32)
        self.top_p = np.ones(max_rows, dtype=np.float32)
        self.min_p = np.zeros(max_rows, dtype=np.float32)
        self.seed = np.zeros(max_rows, dtype=np.int64)
        self.output_index = np.zeros(max_rows, dtype=np.int64)
        self.cross_tokens = np.zeros(max_rows, dtype=np.int32)
        self.adapter = np.full(max_rows, -1, dtype=np.int32)

    def apply(self, plan: StepPlan) -> None:
        """Apply the plan's changes of tables and rows."""
        for row, group, index, entry in plan.table_updates:
            self.tables[group][row, index] = entry
        for setup in plan.row_setups:
            self._set_up(setup)

    def _set_up(self, setup: RowSetup) -> None:
        request = setup.request
        row, params = request.row, request.params
        if row < 0:
            return  # sent back to wait within the same plan
        for table, entries in zip(self.tables, setup.tables, strict=True):
            table[row, : len(entries)] = entries
        self.last_token[row] = request.tokens[-1]
        self.temperature[row] = params.temperature
        self.top_k[row] = params.top_k
        self.top_p[row] = params.top_p
        self.min_p[row] = params.min_p
        self.seed[row] = params.seed
        self.output_index[row] = request.num_output_tokens
        self.cross_tokens[row] = request.cross_tokens
        self.adapter[row] = request.adapter
