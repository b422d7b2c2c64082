"""Launches of a decode step for weights that are quantised: products with the norms around them, and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.ops.triton.kernels.products.activations import NUMBERS
from antiphon.ops.triton.kernels.products.epilogue import finish_product
from antiphon.ops.triton.kernels.quantised.activations import pack_row
from antiphon.ops.triton.kernels.quantised.expansion import expand_blocks, gather_blocks
from antiphon.ops.triton.kernels.quantised.fp8_product import fp8_vector_product
from antiphon.ops.triton.kernels.quantised.row_product import quantised_row_product
from antiphon.ops.triton.kernels.quantised.vector_product import quantised_vector_product
from antiphon.ops.triton.launch import Card, ceil_power
from antiphon.ops.triton.library import multiply
from antiphon.ops.triton.program.launch import Call, Launch
from antiphon.ops.triton.program.normed import NextNorm, Normed
from antiphon.ops.triton.quantised.activations import WARPS as PACKING_WARPS
from antiphon.ops.triton.quantised.activations import num_groups, packed_words
from antiphon.ops.triton.quantised.forms import BLOCK
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix
from antiphon.ops.triton.quantised.prepare import PreparedWeight
from antiphon.ops.triton.quantised.repacking import BlockRows
from antiphon.ops.triton.quantised.row_scaled import RowScaledMatrix
from antiphon.ops.triton.quantised.tiles import row_tile, vector_tile
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.types import Activation

#: Stages of the kernels' loops, as for the operations: Triton's default.
STAGES = 3
#: Gives an uninitialised tensor that only the present instruction uses.
Scratch = Callable[[Sequence[int], torch.dtype], Tensor]


@dataclass(frozen=True)
class Product:
    """out [rows, N] = activation(norm(x) · weightᵀ + bias) + residual; x and out have `padded` rows."""

    x: Tensor
    out: Tensor
    rows: int
    activation: Activation
    bias: Tensor | None = None
    residual: Tensor | None = None
    norm: Normed | None = None
    next: NextNorm | None = None
    #: x, if its writer left it packed.
    packed: Tensor | None = None

    @property
    def gated(self) -> bool:
        return self.activation.endswith("_gate")

    def constants(self) -> dict[str, int]:
        """What the kernels are given of the end of a product."""
        return {
            "GATED": self.gated, "ACTIVATION": NUMBERS[self.activation.removesuffix("_gate")],
            "BIAS": self.bias is not None, "RESIDUAL": self.residual is not None,
        }  # fmt: skip

    def side(self, tensor: Tensor | None, first: int = 0) -> Tensor:
        """Columns of an operand from `first` on; anything where there is none."""
        return self.x if tensor is None else tensor[..., first:]


def takes_scaled(matrix: PreparedWeight) -> bool:
    """Whether the product with up to 64 rows divides by the root mean square itself."""
    return isinstance(matrix, QuantisedMatrix)


def scaled_parts(matrix: QuantisedMatrix, columns: int, gated: bool, card: Card) -> int:
    """Sums of squares that the product with up to 64 rows leaves of each row; 0: it leaves none."""
    if gated:
        pieces = [(matrix.columns, columns)] if matrix.is_gated_in_kernel(columns) else []
    else:
        pieces = [(piece.columns, piece.rows) for piece in matrix.pieces]
    return sum(-(-width // row_tile(width, depth, card.multiprocessors).columns) for depth, width in pieces)


def vector_launches(matrix: PreparedWeight, product: Product, scratch: Scratch, card: Card) -> list[Launch]:
    """The product of one row; the norm is computed inside."""
    if isinstance(matrix, RowScaledMatrix):
        return [_fp8_vector(matrix, product, card)]
    if product.rows != 1:
        raise ValueError(f"the vector product of quantised weights takes 1 row, not {product.rows}")
    if not _is_gated_in_kernel(matrix, product):
        inner, finish = _divided(matrix, product, scratch)
        return [*vector_launches(matrix, inner, scratch, card), finish]
    launches, packed = [], product.packed
    if packed is None:
        packed = scratch((packed_words(matrix.columns),), torch.int32)
        launches.append(_packing(product, packed, card))
    launches += [_block_vector(piece, first, packed, product, card) for piece, first in matrix.placed()]
    return launches


def row_launches(
    matrix: QuantisedMatrix, product: Product, counters: Tensor, scratch: Scratch, card: Card
) -> list[Launch]:
    """The product of up to 64 rows on tensor cores."""
    if not _is_gated_in_kernel(matrix, product):
        inner, finish = _divided(matrix, product, scratch)
        return [*row_launches(matrix, inner, counters, scratch, card), finish]
    launches, part = [], 0
    for piece, first in matrix.placed():
        launches.append(_block_rows(piece, first, part, product, counters, scratch, card))
        part += launches[-1].grid[0]
    return launches


def library_calls(
    matrix: PreparedWeight, x: Tensor, out: Tensor, workspace: ProductWorkspace | None
) -> list[Launch | Call]:  # fmt: skip
    """out = x · weightᵀ for many rows: blocks are expanded first, e4m3 is multiplied as it is where the card can.

    Without a workspace nothing will run. The launches keep the scratch buffer, which steps and operations of a stream
    share, from being freed.
    """
    if workspace is None:
        return []
    if isinstance(matrix, RowScaledMatrix) and matrix.is_multiplied(workspace):
        return [Call("fp8 product", matrix.multiply, (x, out), weight_bytes=matrix.nbytes)]
    dense = workspace.scratch(matrix.rows, matrix.columns, x.dtype)
    expansions: list[Launch | Call]
    if isinstance(matrix, RowScaledMatrix):
        expansions = [Call("expansion", matrix.expand, (dense,))]
    else:
        expansions = [_expansion(piece, dense[first:]) for piece, first in matrix.placed()]
    return [*expansions, Call("library product", multiply, (x, dense, out), weight_bytes=matrix.nbytes)]


def embed_launch(
    table: QuantisedMatrix, ids: Tensor, out: Tensor, rows: int, scale: float, next_norm: NextNorm | None, card: Card
) -> Launch:
    """Rows of a table of one type for ids [rows], times `scale`."""
    (piece,) = table.pieces
    sides = (out, out, out) if next_norm is None else (next_norm.gain, next_norm.scaled, next_norm.squares)
    return Launch(
        "embed", gather_blocks, (rows,), (ids, piece.words, piece.scales, piece.factors, out, *sides, scale),
        {**piece.form.numbers(), "K": piece.columns, "BLOCKS": ceil_power(piece.columns // BLOCK),
         "SCALED": next_norm is not None, "PDL": card.dependent_launch},
    )  # fmt: skip


def _is_gated_in_kernel(matrix: QuantisedMatrix, product: Product) -> bool:
    return not product.gated or matrix.is_gated_in_kernel(product.out.shape[1])


def _divided(matrix: PreparedWeight, product: Product, scratch: Scratch) -> tuple[Product, Launch]:
    """A gated product as one without its gate, in fp32, and the launch that follows."""
    wide = scratch((product.out.shape[0], matrix.rows), torch.float32)
    inner = replace(product, out=wide, activation="none", residual=None, next=None)
    total = product.rows * product.out.shape[1]
    finish = Launch(
        "finish", finish_product, (-(-total // 1024),),
        (wide, wide, product.side(product.residual), product.out, total),
        {**product.constants(), "BIAS": False, "N": product.out.shape[1], "BLOCK": 1024},
    )  # fmt: skip
    return inner, finish


def _packing(product: Product, packed: Tensor, card: Card) -> Launch:
    x, norm = product.x, product.norm
    return Launch(
        "pack", pack_row, (num_groups(x.shape[1]),),
        (x, x if norm is None else norm.gain, packed, packed.view(torch.int8)),
        {"K": x.shape[1], "NORM": norm is not None, "PDL": card.dependent_launch}, PACKING_WARPS,
    )  # fmt: skip


def _block_vector(piece: BlockRows, first: int, packed: Tensor, product: Product, card: Card) -> Launch:
    columns = piece.rows // 2 if product.gated else piece.rows
    tile = vector_tile(piece.form, piece.columns, columns, product.gated)
    norm = product.norm
    return Launch(
        "product", quantised_vector_product, (-(-columns // tile.columns),),
        (packed, piece.words, piece.scales, piece.factors, product.side(product.bias, first),
         product.side(product.residual, first), product.out[:, first:],
         0.0 if norm is None else norm.eps),
        {**piece.form.numbers(), **product.constants(), "K": piece.columns, "N": columns, "BN": tile.columns,
         "BLOCKS": tile.blocks, "NORM": norm is not None, "PDL": card.dependent_launch},
        tile.warps, STAGES, weight_bytes=piece.nbytes,
    )  # fmt: skip


def _fp8_vector(matrix: RowScaledMatrix, product: Product, card: Card) -> Launch:
    columns, norm = product.out.shape[1], product.norm
    return Launch(
        "product", fp8_vector_product, (-(-columns // 8),),
        (product.x, product.x if norm is None else norm.gain, matrix.codes.view(torch.uint8), matrix.scales,
         product.side(product.bias), product.side(product.residual), product.out, product.rows,
         0.0 if norm is None else norm.eps),
        {**product.constants(), "ROWS": ceil_power(product.rows), "K": matrix.columns, "N": columns, "BN": 8,
         "BK": min(1024, ceil_power(matrix.columns)), "NORM": norm is not None, "PDL": card.dependent_launch},
        stages=STAGES, weight_bytes=matrix.nbytes,
    )  # fmt: skip


def _block_rows(
    piece: BlockRows, first: int, part: int, product: Product, counters: Tensor, scratch: Scratch, card: Card
) -> Launch:
    """The product with one piece of a weight, whose columns are those from `first` on; `part` is its first sum."""
    columns = piece.rows // 2 if product.gated else piece.rows
    tile = row_tile(columns, piece.columns, card.multiprocessors)
    x, out, norm, following = product.x, product.out[:, first:], product.norm, product.next
    padded = x.shape[0]
    partial = out
    if tile.splits > 1:
        partial = scratch((tile.splits * (2 if product.gated else 1), columns * padded), torch.float32)
    after = (x, out, out)
    if following is not None:
        after = (following.gain[first:], following.scaled[:, first:], following.squares[part:])
    squares = x if norm is None or norm.squares is None else norm.squares
    return Launch(
        "product", quantised_row_product, (-(-columns // tile.columns), tile.splits),
        (x, squares, piece.words, piece.scales, piece.factors, product.side(product.bias, first),
         product.side(product.residual, first), after[0], out, *after[1:], partial, counters, product.rows,
         0.0 if norm is None else norm.eps),
        {**piece.form.numbers(), **product.constants(), "K": piece.columns, "N": columns,
         "STRIDE": product.out.shape[1], "NORM_PARTS": 0 if norm is None else norm.parts, "ROWS": padded,
         "BN": tile.columns, "BLOCKS": tile.blocks, "SPLITS": tile.splits, "SCALED": following is not None,
         "PDL": card.dependent_launch},
        tile.warps, STAGES, weight_bytes=piece.nbytes,
    )  # fmt: skip


def _expansion(piece: BlockRows, out: Tensor) -> Launch:
    columns, blocks = 8, 16
    grid = (-(-piece.rows // columns), -(-piece.columns // BLOCK // blocks))
    return Launch(
        "expansion", expand_blocks, grid, (piece.words, piece.scales, piece.factors, out),
        {**piece.form.numbers(), "K": piece.columns, "N": piece.rows, "BN": columns, "BLOCKS": blocks},
    )  # fmt: skip
