"""`DecodeGraphs`: the decode steps of a model as CUDA graphs, captured by the first step of each size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from antiphon.executor.device.ahead import decode_sizes
from antiphon.executor.device.buckets import chained_size, chained_sizes, row_bucket, split_count
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.upload import upload
from antiphon.ops.program import Recording
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.capture import capture
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.program.attention_lowering import parts_bytes
from antiphon.ops.triton.program.choice import Draw
from antiphon.ops.triton.program.step import LoweredDecodeStep, StepMemory, step_bytes
from antiphon.ops.triton.program.workspace import ALIGNMENT

#: Maximum tokens of a step with drafts that runs as a decode step; larger steps, which gain little, run like prompts.
CHAINED_ROWS = 32


class StepKey(NamedTuple):
    rows: int
    splits: int
    draw: Draw
    is_chained: bool = False


@dataclass(frozen=True)
class Chain:
    """Token per batch slot, -1 if taken from the row, and offset of each token from its row's next position."""

    tokens: Sequence[int]
    offsets: Sequence[int]


class DecodeGraphs:
    """Runs steps in which every request computes one token, or its newest token and a draft.

    A step reads the rows of its requests, computes, samples with the rows' parameters unless the caller does, and
    writes the rows. Nothing is uploaded while the same requests stay in the batch.
    """

    def __init__(
        self, recording: Recording, store: DeviceRows, max_rows: int, vocab_size: int, compute_type: torch.dtype
    ) -> None:
        self._recording, self._max_rows, self._vocab_size = recording, max_rows, vocab_size
        self.chained_rows = min(CHAINED_ROWS, max_rows)
        self._type = compute_type
        self._store, self._card = store, card(store.device)
        groups = [layout.group for layout in store.layouts]
        self._rows = store.as_step_rows()
        self._kv_heads = min(group.num_kv_heads for group in groups)
        largest = row_bucket(max_rows, max_rows)
        sizes = sorted({row_bucket(rows, max_rows) for rows in range(1, max_rows + 1)})
        needed = []
        for rows in sizes:
            splits = split_count(rows, self._kv_heads, 1 << 20)
            most = step_bytes(recording, rows, splits, self._rows, compute_type, vocab_size, self._card)
            # With fewer splits the parts of attention are smaller, and may need memory of their own.
            needed.append(most + parts_bytes(recording, rows, splits))
        heads = max(group.num_kv_heads for group in groups)
        self._pages = {layout.group.name: layout.block_tokens for layout in store.layouts}
        slots = len(groups) * -(-8 * largest // ALIGNMENT) * ALIGNMENT  # slots of chained steps' tokens
        self._memory = StepMemory.allocate(largest, max(needed) + slots, max(1 << 14, largest * heads), store.device)
        self._steps: dict[StepKey, LoweredDecodeStep] = {}
        self._graphs: dict[StepKey, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if store.device.type == "cuda" else None
        self._batch: tuple[int, ...] = ()

    @property
    def num_graphs(self) -> int:
        return len(self._graphs)

    @property
    def num_steps(self) -> int:
        return len(self._steps)

    def run(self, rows: Sequence[int], longest: int, draw: Draw, chain: Chain | None = None) -> Tensor:
        """Run a step. Return tokens [len(rows)], or logits if `draw` is NOTHING; the next step overwrites these.

        `longest` is the number of tokens of the longest request. With a chain, `rows` may repeat a row.
        """
        if chain is None:
            count = row_bucket(len(rows), self._max_rows)
            splits = split_count(count, self._kv_heads, longest)
        else:
            count, splits = chained_size(len(rows), self._max_rows, self._kv_heads, longest)
        key = StepKey(count, splits, draw, chain is not None)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._make(*key)
        if chain is None:
            self._write_rows(rows)
        else:
            self._write_chain(rows, chain)
        graph = self._graphs.get(key)
        if graph is None:
            step.run()
        else:
            graph.replay()
        return step.logits[: len(rows)] if draw is Draw.NOTHING else self._memory.drawn[: len(rows)]

    def _write_rows(self, rows: Sequence[int]) -> None:
        """Upload the rows of the step, unless they are the last step's."""
        batch = tuple(rows)
        if batch != self._batch:
            self._batch = batch
            padded = np.full(len(self._memory.rows), -1, dtype=np.int32)
            padded[: len(batch)] = batch
            self._memory.rows.copy_(upload(padded, self._store.device))

    def _write_chain(self, rows: Sequence[int], chain: Chain) -> None:
        self._batch = ()
        padded = np.full((3, len(self._memory.rows)), -1, dtype=np.int32)
        padded[0, : len(rows)], padded[1, : len(rows)], padded[2, : len(rows)] = rows, chain.tokens, chain.offsets
        columns = upload(padded, self._store.device)
        for target, values in zip((self._memory.rows, self._memory.given, self._memory.offsets), columns, strict=True):
            target.copy_(values)

    def variants(self, max_tokens: int) -> Iterator[tuple[int, list[Variant]]]:
        """Yield the rows and kernels of decode steps that together launch every kernel, small steps first."""
        return self._variants(decode_sizes(self._max_rows, self._kv_heads, max_tokens), is_chained=False)

    def chained_variants(self, max_tokens: int) -> Iterator[Variant]:
        """Yield the kernels of steps with drafts."""
        sizes = chained_sizes(self.chained_rows, self._kv_heads, max_tokens)
        for _, variants in self._variants(sizes, is_chained=True):
            yield from variants

    def _variants(self, sizes: Iterable[tuple[int, int]], is_chained: bool) -> Iterator[tuple[int, list[Variant]]]:
        last = 0
        for count, splits in sizes:
            for draw in (Draw.PLAIN,) if count == last else Draw:  # sampling kernels do not depend on splits
                yield count, self._lower(count, splits, draw, is_chained).variants()
            last = count

    def _lower(self, count: int, splits: int, draw: Draw, is_chained: bool = False) -> LoweredDecodeStep:
        return LoweredDecodeStep(
            self._recording, count, splits, self._rows, self._memory, self._type, self._vocab_size, self._card, draw,
            self._pages if is_chained else None,
        )  # fmt: skip

    def _make(self, count: int, splits: int, draw: Draw, is_chained: bool = False) -> LoweredDecodeStep:
        step = self._lower(count, splits, draw, is_chained)
        if self._pool is not None:
            self._memory.rows.fill_(-1)
            self._batch = ()
            step.run()  # loads the kernels, compiling them if necessary; every row is padding
            self._graphs[StepKey(count, splits, draw, is_chained)], _ = capture(step.run, self._pool)
        return step
