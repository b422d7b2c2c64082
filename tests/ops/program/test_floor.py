"""The least time of a step, against bytes and operations counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from antiphon.executor.recorded import recordings
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, KVCache, allocate_arena
from antiphon.ops.program import Recording
from antiphon.ops.program.floor import UniformStep, floor_lines, has_floor, step_floor
from antiphon.ops.program.profile import MachineLimits
from antiphon.weights.formats.open import open_checkpoint
from support.models.tiny_model import HEAD_DIM, HEADS, HIDDEN, INTERMEDIATE, KV_HEADS, LAYERS

LIMITS = MachineLimits(1e9, 1e9, 0.0)
QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM
ROW_MACS = HIDDEN * QKV + HEADS * HEAD_DIM * HIDDEN + 3 * HIDDEN * INTERMEDIATE


@pytest.fixture(scope="module")
def recording(tiny_llama: str) -> Recording:
    model = build_model(open_checkpoint(tiny_llama))  # type: ignore[arg-type]
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, key_dtype=torch.float16, value_dtype=torch.float16) for group in decoder.cache_groups]
    made = recordings(model, KVCache(allocate_arena(0), layouts))
    return next(iter(made.values()))()


def test_bytes_and_operations_of_a_step(recording: Recording) -> None:
    size = UniformStep(rows=3, context=40)
    kinds = step_floor(recording, size, LIMITS)
    vocabulary = max(one.weight.rows for one in recording.instructions if one.weight is not None)
    num_norms = 2 * LAYERS + 1
    weights = 4 * (LAYERS * ROW_MACS + vocabulary * HIDDEN + num_norms * HIDDEN)  # fp32
    embeddings = 3 * 4 * HIDDEN
    # Three tokens are written, and each query sees itself too.
    keys = 3 * (1 + 41) * LAYERS * 2 * KV_HEADS * HEAD_DIM * 2  # fp16
    assert sum(kind.bytes for kind in kinds) == pytest.approx(weights + embeddings + keys)
    macs = 3 * (LAYERS * ROW_MACS + vocabulary * HIDDEN) + 3 * 41 * LAYERS * 2 * HEADS * HEAD_DIM
    norms = 3 * num_norms * 2 * HIDDEN
    assert sum(kind.macs for kind in kinds) == pytest.approx(macs + norms)
    assert kinds == sorted(kinds, key=lambda kind: -kind.seconds)


@pytest.mark.parametrize("window", [None, 1, 5, 16, 100])
@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize(("context", "tokens"), [(0, 1), (0, 7), (3, 4), (12, 9), (40, 1), (40, 30)])
def test_pairs_and_keys_are_those_of_a_mask(window: int | None, sinks: int, context: int, tokens: int) -> None:
    """Against a mask with a row for each query. The first tokens are sinks if they have left the window."""
    mask = torch.zeros(tokens, context + tokens, dtype=torch.bool)
    for row in range(tokens):
        position = context + row
        mask[row, max(0, position + 1 - (window or position + 1)) : position + 1] = True
        if window is not None:
            mask[row, : min(sinks, position + 1)] = True
    pairs, keys = UniformStep(3, context, tokens).causal(window, 0 if window is None else sinks)
    assert pairs == 3 * int(mask.sum())
    assert keys == 3 * int(mask.any(dim=0).sum())


def test_what_limits_a_step(recording: Recording) -> None:
    size = UniformStep(rows=1, context=1)
    slow_memory, slow_units = replace(LIMITS, bytes_per_second=1e3), replace(LIMITS, macs_per_second=1e3)
    assert {kind.bound for kind in step_floor(recording, size, slow_memory)} == {"bytes"}
    bounds = {kind.bound for kind in step_floor(recording, size, slow_units) if kind.macs}
    assert bounds == {"operations"}
    by_bytes = step_floor(recording, size, slow_memory)
    assert sum(kind.seconds for kind in by_bytes) == pytest.approx(sum(kind.bytes for kind in by_bytes) / 1e3)


def test_the_table_has_a_line_for_each_kind_and_their_sum(recording: Recording) -> None:
    assert has_floor(recording)
    kinds = step_floor(recording, UniformStep(), LIMITS)
    heading, columns, *rows, last = floor_lines("decode", recording, UniformStep(), LIMITS)
    assert "for 1 row after 512 tokens, at 1.0 GB/s and 1.0 GMAC/s" in heading
    assert columns.split()[0] == "INSTRUCTION"
    assert len(rows) == len(kinds)
    total = float(last.split()[-1].replace(",", ""))
    assert total == pytest.approx(sum(kind.seconds for kind in kinds) * 1e6, abs=0.1)
