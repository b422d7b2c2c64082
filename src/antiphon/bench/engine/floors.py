"""Minimum times of a step or a prefill of a known shape, from its recorded program; no weights are created."""

from __future__ import annotations

import torch

from antiphon.bench.random_models.random_model import SHAPES, RandomCheckpoint
from antiphon.executor.recorded import recordings
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import CacheLayout, KVCache, allocate_arena
from antiphon.ops.program import Recording
from antiphon.ops.program.floor import UniformStep, step_floor
from antiphon.ops.program.profile import MachineLimits


def shape_program(shape: str, page_type: torch.dtype = torch.bfloat16, in_blocks: bool = False) -> Recording:
    """Record the forward pass of a shape with weights in bf16, or in Q4_K if `in_blocks`, and KV pages of this type."""
    model = build_model(RandomCheckpoint(SHAPES[shape], device="meta", in_blocks=in_blocks))
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    layouts = [CacheLayout(group, key_dtype=page_type, value_dtype=page_type) for group in decoder.cache_groups]
    return recordings(model, KVCache(allocate_arena(0), layouts))["forward"]()


def decode_floor(program: Recording, rows: int, context: int, limits: MachineLimits) -> float:
    """Return the minimum seconds of a step that gives each of `rows` sequences a token after `context` tokens."""
    return sum(kind.seconds for kind in step_floor(program, UniformStep(rows, context), limits))


def prefill_floor(program: Recording, prompts: int, length: int, limits: MachineLimits) -> float:
    """Return the minimum seconds to prefill the prompts in a step, limited by operations or by bytes of weights."""
    return sum(kind.seconds for kind in step_floor(program, UniformStep(prompts, 0, length), limits))
