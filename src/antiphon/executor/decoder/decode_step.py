"""A step in which every request computes one token: one native call from the rows to the tokens."""

from __future__ import annotations

import time

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.decoder.forward import Forward
from antiphon.executor.rows import RowStore
from antiphon.ops import CacheKind
from antiphon.ops.native.extension import extension
from antiphon.ops.native.program import Program


class DecodeStep:
    """Reads the rows of the requests, runs the program, samples with the rows' parameters, and updates the rows.

    The tokens are the same as those of a batch built in Python and the Python sampler.
    """

    def __init__(
        self, program: Program, forward: Forward, store: RowStore, vocab_size: int, adapted: bool = False
    ) -> None:
        self._program = program
        self._forward = forward
        self._store = store  # whose arrays are read and written by address
        self._vocab_size = vocab_size
        columns = (
            store.last_token, store.cross_tokens, store.temperature, store.top_k, store.top_p, store.min_p, store.seed,
            store.output_index,
        )  # fmt: skip
        tables = [
            (table.ctypes.data, table.shape[1], layout.block_tokens, layout.group.kind is CacheKind.CROSS)
            for table, layout in zip(store.tables, store.layouts, strict=True)
        ]
        self._native = extension().DecodeStep(
            program.native, len(program.recording.symbols), forward.logit_width,
            [*(column.ctypes.data for column in columns), store.adapter.ctypes.data if adapted else 0], tables,
        )  # fmt: skip

    def run(self, plan: StepPlan, begun: float) -> StepResult:
        """The tokens of the plan's requests, all of which are decodes that need only a token."""
        rows = [request.row for request in plan.requests]
        logits = self._forward.logits(len(rows))
        program = self._program
        called = time.perf_counter()
        tokens, ran, sampled = self._native.run(
            rows, plan.starts, logits.data_ptr(), self._vocab_size, program.threads, program.variant
        )
        done = time.perf_counter()
        sample = sampled * 1e-9
        timings = {"build": called - begun, "run": done - called - sample, "sample": sample}
        return StepResult(tokens, timings=timings, native_seconds=ran * 1e-9 + sample)
