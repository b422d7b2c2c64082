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
from antiphon.ops.program.floor import StepSize, floor_lines, has_floor, step_floor
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
    size = StepSize(rows=3, context=40)
    kinds = step_floor(recording, size, LIMITS)
    vocabulary = max(one.weight.rows for one in recording.instructions if one.weight is not None)
    weights = 4 * (LAYERS * ROW_MACS + vocabulary * HIDDEN)  # fp32
    keys = 3 * 40 * LAYERS * 2 * KV_HEADS * HEAD_DIM * 2  # fp16
    assert sum(kind.bytes for kind in kinds) == pytest.approx(weights + keys)
    macs = 3 * (LAYERS * ROW_MACS + vocabulary * HIDDEN) + 3 * 40 * LAYERS * 2 * HEADS * HEAD_DIM
    assert sum(kind.macs for kind in kinds) == pytest.approx(macs)
    assert kinds == sorted(kinds, key=lambda kind: -kind.seconds)


def test_what_limits_a_step(recording: Recording) -> None:
    size = StepSize(rows=1, context=1)
    slow_memory, slow_units = replace(LIMITS, bytes_per_second=1e3), replace(LIMITS, macs_per_second=1e3)
    assert {kind.bound for kind in step_floor(recording, size, slow_memory)} == {"bytes"}
    assert {kind.bound for kind in step_floor(recording, size, slow_units)} == {"operations"}
    by_bytes = step_floor(recording, size, slow_memory)
    assert sum(kind.seconds for kind in by_bytes) == pytest.approx(sum(kind.bytes for kind in by_bytes) / 1e3)


def test_the_table_has_a_line_for_each_kind_and_their_sum(recording: Recording) -> None:
    assert has_floor(recording)
    kinds = step_floor(recording, StepSize(), LIMITS)
    heading, columns, *rows, last = floor_lines("decode", recording, StepSize(), LIMITS)
    assert "for 1 row after 512 tokens, at 1.0 GB/s and 1.0 GMAC/s" in heading
    assert columns.split()[0] == "INSTRUCTION"
    assert len(rows) == len(kinds)
    total = float(last.split()[-1].replace(",", ""))
    assert total == pytest.approx(sum(kind.seconds for kind in kinds) * 1e6, abs=0.1)
