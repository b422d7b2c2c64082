"""Step of newest tokens and drafts: one native call from the rows to the tokens."""

from __future__ import annotations

import time
from itertools import chain

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.decoder.forward import Forward
from antiphon.executor.rows import RowStore
from antiphon.ops import CacheKind
from antiphon.ops.native.extension import extension
from antiphon.ops.native.program import Program

NOTHING: list[int] = []


class DecodeStep:
    """Reads the rows of the requests, runs the program, samples with the rows' parameters, and updates the rows.

    The tokens equal those of a batch built in Python and the Python sampler.
    """

    def __init__(
        self, program: Program, forward: Forward, store: RowStore, vocab_size: int, adapted: bool = False
    ) -> None:
        self._program = program
        self._forward = forward
        self._store = store  # kept alive: native code reads and writes its arrays by address
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
        """Compute the plan's tokens. Every request computes its newest token and a draft, if any, and needs no more."""
        rows = [request.row for request in plan.requests]
        logits = self._forward.logits(plan.num_tokens)
        drafts = [plan.drafts.get(entry, NOTHING) for entry in range(len(rows))] if plan.drafts else []
        program = self._program
        called = time.perf_counter()
        tokens, kept, ran, sampled = self._native.run(
            rows, plan.starts, list(map(len, drafts)), list(chain.from_iterable(drafts)), logits.data_ptr(),
            self._vocab_size, program.threads, program.variant,
        )  # fmt: skip
        done = time.perf_counter()
        sample = sampled * 1e-9
        timings = {"build": called - begun, "run": done - called - sample, "sample": sample}
        result = StepResult(tokens, timings=timings, native_seconds=ran * 1e-9 + sample)
        result.kept = {entry: kept[entry] for entry in plan.drafts}
        return result
