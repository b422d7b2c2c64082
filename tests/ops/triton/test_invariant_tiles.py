"""Tiles of batch-invariant mode: whatever the sizes, none for which sm_90 has an instruction of its own."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops.triton.invariant.tiles import MAX_SPLITS, SPLIT_TOKENS, attention_tile, context_splits, product_tile

ROWS = (1, 2, 7, 16, 17, 32, 33, 64, 65, 256, 8192)


@pytest.mark.parametrize("multiprocessors", [4, 58, 108, 132])
def test_every_product_is_made_of_the_same_instruction(multiprocessors: int) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        for columns in (64, 1024, 4096, 12288, 151936):
            for gated in (False, True):
                tiles = [product_tile(dtype, rows, columns, gated, multiprocessors) for rows in ROWS]
                assert all(tile.rows % 64 or tile.warps % 4 for tile in tiles)
                assert all(tile.rows >= 16 <= tile.columns for tile in tiles)


def test_fp32_has_one_tile() -> None:
    assert len({product_tile(torch.float32, rows, 4096, False, 132) for rows in ROWS}) == 1


@pytest.mark.parametrize("shared", [1, 2, 4, 8, 16, 32, 64])
def test_a_tile_of_queries_is_one_that_tensor_cores_take(shared: int) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        assert attention_tile(dtype, 128, shared).queries * shared >= 16


def test_contexts_are_shared_in_small_steps() -> None:
    for tokens in range(1, 40):
        splits = context_splits(tokens, 8, 80, 132)
        assert 1 <= splits <= MAX_SPLITS and (splits == 1 or tokens <= SPLIT_TOKENS)
    assert context_splits(1, 8, 3, 132) == 3, "more programs than parts"
