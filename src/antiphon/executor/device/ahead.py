"""Which kernels a model's steps launch: those that requests meet first, and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from antiphon import ops
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.buckets import DENSE_ROWS, row_bucket, split_count
from antiphon.executor.device.rows import DeviceRows
from antiphon.ops.triton.ahead.collection import collecting
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.triton.program.builder import padded_rows
from antiphon.ops.triton.program.tiles import ROW_PRODUCT_ROWS

#: Lengths of the prompts whose kernels are collected; tiles differ between short and long ones.
PROMPTS = (24, 96, 200, 512, 1024, 2048)
#: Numbers of changed words of rows whose kernels are collected: 1, a multiple of 16, another one.
CHANGES = (1, 16, 17)


def decode_sizes(max_rows: int, kv_heads: int, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Rows and splits of steps that together launch every kernel of a decode step, small steps first.

    Kernels depend on the padded number of rows, on the power of two that holds them, and on whether 16 divides them.
    """
    seen: set[tuple[object, ...]] = set()
    for rows in sorted({row_bucket(count, max_rows) for count in range(1, max_rows + 1)}):
        padded = padded_rows(rows) if rows <= ROW_PRODUCT_ROWS else 0
        lengths = (1 << power for power in range(max_tokens.bit_length() + 1))
        for splits in sorted({split_count(rows, kv_heads, longest) for longest in lengths}):
            kind = (padded, ceil_power(rows), rows % 16 == 0, splits)
            if kind not in seen:
                seen.add(kind)
                yield rows, splits


def is_first(rows: int) -> bool:
    """Whether a model is ready only with the kernels of decode steps of so many rows."""
    return rows <= DENSE_ROWS


def prompt_variants(store: DeviceRows, longest: int, run: Callable[[StepPlan], object]) -> dict[Variant, None]:
    """The kernels of steps with a prompt. `run` launches the forward pass of a plan and draws.

    No request may have a row yet. Afterwards all are as they were made.
    """
    with torch.inference_mode(), collecting() as found:
        try:
            for count in CHANGES:
                changes = torch.zeros(count, 2, dtype=torch.int32, device=store.device)
                ops.scatter_words(store.words.view(-1), changes)
            for length in PROMPTS:
                if length < longest:
                    run(_prompt_plan(length))
        finally:
            store.words.zero_()
    return found


def _prompt_plan(length: int) -> StepPlan:
    """A request that computes its whole prompt, in row 0, and draws from a part of the vocabulary."""
    request = Request("kernels", "", [0] * length, SamplingParams(temperature=0.7, top_p=0.95, max_tokens=1))
    request.row = 0
    plan = StepPlan("")
    plan.add(request, length, samples=True)
    return plan
