"""Blocks that are moved by a plan, in its order."""

from __future__ import annotations

import torch

from antiphon.engine.plan import BlockCopy, StepPlan, SwapIn, SwapOut
from antiphon.executor.swap import SwapPool
from antiphon.ops import allocate_arena
from antiphon.ops.cache import OFFSET_UNIT

BLOCKS = 6


def filled() -> torch.Tensor:
    arena = allocate_arena(BLOCKS * OFFSET_UNIT)
    arena.view(BLOCKS, OFFSET_UNIT).copy_(torch.arange(BLOCKS, dtype=torch.uint8)[:, None])
    return arena


def contents(arena: torch.Tensor) -> list[int]:
    blocks = arena.view(BLOCKS, OFFSET_UNIT)
    assert (blocks == blocks[:, :1]).all(), "a part of a block was moved"
    return blocks[:, 0].tolist()


def test_moves_follow_each_other() -> None:
    """A block that is saved, overwritten by a copy, and restored to another block within one plan."""
    arena = filled()
    pool = SwapPool(arena)
    unit = OFFSET_UNIT
    pool.move(StepPlan("m", moves=[SwapOut("r", [(1, unit), (4, unit)]), BlockCopy(0, 1, unit), BlockCopy(1, 4, unit)]))
    assert contents(arena) == [0, 0, 2, 3, 0, 5] and pool.num_bytes == 2 * unit
    pool.move(StepPlan("m", moves=[SwapIn("r", [(2, unit), (5, unit)])]))
    assert contents(arena) == [0, 0, 1, 3, 0, 4] and pool.num_bytes == 0


def test_a_dropped_copy_is_freed() -> None:
    pool = SwapPool(filled())
    pool.move(StepPlan("m", moves=[SwapOut("r", [(1, OFFSET_UNIT)]), SwapOut("s", [(2, OFFSET_UNIT)])]))
    pool.move(StepPlan("m", dropped_keys=["r", "never saved"]))
    assert pool.num_bytes == OFFSET_UNIT
    pool.clear()
    assert pool.num_bytes == 0
