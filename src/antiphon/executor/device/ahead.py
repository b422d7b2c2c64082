"""Compilation of a model's kernels ahead of requests, in the order in which requests need them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

import torch

from antiphon import ops
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.buckets import DENSE_ROWS, row_bucket, split_count
from antiphon.executor.device.rows import DeviceRows
from antiphon.ops.triton.ahead.collection import collecting
from antiphon.ops.triton.ahead.compiler import AheadCompiler
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.triton.program.builder import padded_rows
from antiphon.ops.triton.program.tiles import ROW_PRODUCT_ROWS, attention_tile
from antiphon.ops.triton.quantised.workspace import drop_workspace

logger = logging.getLogger(__name__)

#: (Number of prompts, length of each) of steps whose kernels are collected: tiles differ between short and long
#: prompts, and sampling kernels are compiled for addresses that depend on the number of rows.
PROMPTS = ((1, 24), (1, 96), (1, 200), (1, 512), (1, 1024), (1, 2048), (2, 24), (3, 24), (4, 24), (16, 24))
#: Numbers of changed words whose kernels are collected: 1, a multiple of 16, another number.
CHANGES = (1, 16, 17)


def decode_sizes(max_rows: int, kv_heads: int, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield rows and splits of steps that together launch every kernel of a decode step, small steps first.

    Kernels depend on the padded number of rows, on the power of two that holds them, on whether 16 divides them, and on
    attention's tile.
    """
    seen: set[tuple[object, ...]] = set()
    for rows in sorted({row_bucket(count, max_rows) for count in range(1, max_rows + 1)}):
        padded = padded_rows(rows) if rows <= ROW_PRODUCT_ROWS else 0
        lengths = (1 << power for power in range(max_tokens.bit_length() + 1))
        for splits in sorted({split_count(rows, kv_heads, longest) for longest in lengths}):
            tiles = [attention_tile(rows, shared) for shared in (1, 4)]
            kind = (padded, ceil_power(rows), rows % 16 == 0, splits, *tiles)
            if kind not in seen:
                seen.add(kind)
                yield rows, splits


def prompt_variants(store: DeviceRows, longest: int, run: Callable[[StepPlan], object]) -> Iterable[Variant]:
    """Collect the kernels of steps with prompts, as far as possible. `run` launches a plan's forward pass and sampling.

    No request may have a row yet: all rows are zero before and after.
    """
    found: Iterable[Variant] = ()
    try:
        with torch.inference_mode(), collecting() as found:
            for count in CHANGES:
                changes = torch.zeros(count, 2, dtype=torch.int32, device=store.device)
                ops.scatter_words(store.words.view(-1), changes)
            for prompts, length in PROMPTS:
                if length < longest and prompts <= len(store.words):
                    run(_prompt_plan(prompts, length))
    except Exception as error:  # missing kernels are compiled by the first prompt that needs them
        if isinstance(error, torch.OutOfMemoryError) or "CUDA error" in str(error):
            raise
        logger.warning("not all kernels of prompts are compiled ahead: %s: %s", type(error).__name__, error)
    finally:
        store.words.zero_()
        if store.device.type == "cuda":
            torch.cuda.current_stream(store.device).synchronize()
            drop_workspace(store.device)  # memory of the current stream, which steps do not use
            torch.cuda.empty_cache()
    return found


def compile_in_order(
    compiler: AheadCompiler,
    prompts: Iterable[Variant],
    steps: Iterator[tuple[int, Iterable[Variant]]],
    chained: Iterable[Variant],
    speculates: bool,
    owner: str,
    on_chained: Callable[[], None],
) -> None:
    """Compile the kernels of prompts and of small steps, then those of other steps in the background.

    `steps` yields rows and kernels of decode steps, small steps first; `chained` are the kernels of steps with drafts.
    These are compiled before the return if the model `speculates`, else first in the background; `on_chained` is called
    once they are compiled.
    """
    first, later = dict.fromkeys(prompts), dict[Variant, None]()
    for rows, variants in steps:
        if rows > DENSE_ROWS:
            later.update(dict.fromkeys(variants))
            break
        first.update(dict.fromkeys(variants))
    if speculates:
        first.update(dict.fromkeys(chained))
        chained = ()
    begun = compiler.begin(first)
    drafts = dict.fromkeys(variant for variant in chained if variant not in first)  # computed while processes compile
    for _, variants in steps:
        later.update(dict.fromkeys(variants))
    compiler.finish(begun)
    logger.info("%s: %d kernels, %d of them compiled now", owner, len(first), len(begun.missing))
    earlier = first | drafts
    others = [variant for variant in later if variant not in earlier]
    if speculates:
        on_chained()
        compiler.compile_in_background((others, None))
    else:
        compiler.compile_in_background((list(drafts), on_chained), (others, None))


def _prompt_plan(prompts: int, length: int) -> StepPlan:
    """Plan whole prompts of `length` tokens in the first rows, sampled from a part of the vocabulary."""
    plan = StepPlan("")
    for row in range(prompts):
        request = Request("", "", [0] * length, SamplingParams(temperature=0.7, top_p=0.95, max_tokens=1))
        request.row = row
        plan.add(request, length, samples=True)
    return plan
