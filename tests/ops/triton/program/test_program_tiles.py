"""Tiles of a decode step's products: whatever the kernel takes without a mask divides the shape."""

from __future__ import annotations

import pytest

from antiphon.bench.random_models.random_model import SHAPES
from antiphon.ops.triton.launch import Card
from antiphon.ops.triton.program.tiles import ROW_PRODUCT_ROWS, attention_tile, fitted, row_tile, vector_tile


def products(name: str) -> list[tuple[int, int, bool]]:
    """(depth, columns, gated) of every product of a model."""
    shape = SHAPES[name]
    hidden, inner, heads = shape["hidden_size"], shape["intermediate_size"], shape["num_attention_heads"]
    size = shape.get("head_dim", hidden // heads)
    joined = (heads + 2 * shape["num_key_value_heads"]) * size
    return [
        (hidden, joined, False),
        (heads * size, hidden, False),
        (hidden, inner, True),
        (inner, hidden, False),
        (hidden, shape["vocab_size"], False),
    ]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("rows", [16, 32, 64])
@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize(("capability", "kibibytes"), [(80, 163), (89, 99), (90, 227)])
def test_row_tiles_divide_their_shapes_and_fit(
    name: str, rows: int, capability: int, kibibytes: int, element_bytes: int
) -> None:
    for depth, columns, gated in products(name):
        tile = row_tile(rows, depth, columns, gated)
        assert tile is not None, f"{columns} x {depth} goes to the library"
        tile = fitted(tile, rows, gated, Card(capability, 108).shared_bytes, element_bytes)
        assert columns % tile.columns == 0
        assert depth % tile.splits == 0 and depth // tile.splits % tile.depth == 0
        assert not gated or tile.splits == 1
        loaded = (tile.columns * (2 if gated else 1) + rows) * tile.depth * element_bytes
        assert tile.stages >= 2 and loaded * (tile.stages - 1) < kibibytes << 10


@pytest.mark.parametrize("name", SHAPES)
def test_vector_tiles_are_powers_of_two(name: str) -> None:
    for depth, columns, gated in products(name):
        tile = vector_tile(depth, columns, gated)
        for size in (tile.columns, tile.depth, tile.warps):
            assert size & (size - 1) == 0
        assert tile.depth < 2 * depth, "half of a tile is empty"


def test_shapes_without_a_tile_go_to_the_library() -> None:
    assert row_tile(16, 1024, 1000, False) is None
    assert row_tile(16, 1000, 1024, False) is None
    assert row_tile(16, 1024, 1000, True) is None
    assert row_tile(ROW_PRODUCT_ROWS + 1, 1024, 1024, False) is None
    assert row_tile(8, 1024, 1024, False) is None, "tensor cores take 16 rows"


@pytest.mark.parametrize("shared", [1, 2, 4, 8])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 64, 256])
def test_attention_reads_powers_of_two_tokens(rows: int, shared: int) -> None:
    tile = attention_tile(rows, shared)
    assert tile.tokens & (tile.tokens - 1) == 0 and tile.tokens >= 16
