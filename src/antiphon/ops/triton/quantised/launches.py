"""Launches of products with block-quantised rows and the norms around them, and launches that decode such rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.ops.triton.epilogue import epilogue_constants, finish_launch
from antiphon.ops.triton.kernel_launch import Launch
from antiphon.ops.triton.kernels.quantised.activations import pack_row
from antiphon.ops.triton.kernels.quantised.expansion import expand_blocks, gather_blocks
from antiphon.ops.triton.kernels.quantised.row_product import quantised_row_product
from antiphon.ops.triton.kernels.quantised.vector_product import quantised_vector_product
from antiphon.ops.triton.launch import Card, ceil_power
from antiphon.ops.triton.normed import NextNorm, Normed
from antiphon.ops.triton.quantised.activations import WARPS as PACKING_WARPS
from antiphon.ops.triton.quantised.activations import num_groups
from antiphon.ops.triton.quantised.forms import BLOCK
from antiphon.ops.triton.quantised.repacking import BlockRows
from antiphon.ops.triton.quantised.tiles import BlockRowTile, BlockVectorTile, row_tile, vector_tile
from antiphon.ops.types import Activation

#: Pipeline stages of the kernels' loops: Triton's default.
STAGES = 3
#: Function that allocates an uninitialised tensor for the current instruction only.
Scratch = Callable[[Sequence[int], torch.dtype], Tensor]


@dataclass(frozen=True)
class Product:
    """Operands of out [rows, N] = activation(norm(x) · weightᵀ + bias) + residual; x and out may have padding rows."""

    x: Tensor
    out: Tensor
    rows: int
    activation: Activation
    bias: Tensor | None = None
    residual: Tensor | None = None
    norm: Normed | None = None
    next: NextNorm | None = None
    #: Packed form of x, if the kernel that wrote x packed it.
    packed: Tensor | None = None

    @property
    def gated(self) -> bool:
        return self.activation.endswith("_gate")

    @property
    def eps(self) -> float:
        return 0.0 if self.norm is None else self.norm.eps

    def constants(self) -> dict[str, int]:
        return epilogue_constants(self.activation, self.bias, self.residual)

    def side(self, tensor: Tensor | None, first: int = 0) -> Tensor:
        """Return an optional operand's columns from `first` on; without the operand, a tensor that is not read."""
        return self.x if tensor is None else tensor[..., first:]

    def divided(self, width: int, scratch: Scratch) -> tuple[Product, Launch]:
        """Return a gated product without its gate, `width` columns in fp32, and the launch that applies the gate."""
        wide = scratch((self.out.shape[0], width), torch.float32)
        inner = replace(self, out=wide, activation="none", residual=None, next=None)
        return inner, finish_launch(wide, None, self.activation, self.residual, self.out, self.rows)


def pack_launch(product: Product, packed: Tensor, card: Card) -> Launch:
    x, norm = product.x, product.norm
    return Launch(
        "pack", pack_row, (num_groups(x.shape[1]),),
        (x, x if norm is None else norm.gain, packed, packed.view(torch.int8)),
        {"K": x.shape[1], "NORM": norm is not None, "PDL": card.dependent_launch}, PACKING_WARPS,
    )  # fmt: skip


def vector_launch(
    piece: BlockRows, first: int, packed: Tensor, product: Product, card: Card, tile: BlockVectorTile | None = None
) -> Launch:
    """Return the launch that multiplies one packed row by a piece of a weight, into columns from `first` on."""
    columns = piece.rows // 2 if product.gated else piece.rows
    tile = tile or vector_tile(piece.form, piece.columns, columns, product.gated)
    return Launch(
        "product", quantised_vector_product, (-(-columns // tile.columns),),
        (packed, piece.words, piece.scales, piece.factors, product.side(product.bias, first),
         product.side(product.residual, first), product.out[:, first:], product.eps),
        {**piece.form.numbers(), **product.constants(), "K": piece.columns, "N": columns, "BN": tile.columns,
         "BLOCKS": tile.blocks, "NORM": product.norm is not None, "PDL": card.dependent_launch},
        tile.warps, STAGES, weight_bytes=piece.nbytes,
    )  # fmt: skip


def row_launch(
    piece: BlockRows, first: int, part: int, product: Product, counters: Tensor, scratch: Scratch, card: Card,
    tile: BlockRowTile | None = None,
) -> Launch:  # fmt: skip
    """Return the launch that multiplies up to 64 rows by a piece of a weight, into columns from `first` on.

    `part` is the index of the piece's first sum of squares for the next norm. The result may be columns of a wider
    tensor.
    """
    columns = piece.rows // 2 if product.gated else piece.rows
    tile = tile or row_tile(columns, piece.columns, card.multiprocessors)
    x, out, norm, following = product.x, product.out[:, first:], product.norm, product.next
    if product.residual is not None and product.residual.stride(0) != out.stride(0):
        apart = f"{product.residual.stride(0)} and {out.stride(0)}"
        raise ValueError(f"rows of residual and result lie {apart} elements apart")
    padded = max(16, ceil_power(product.rows))
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
         product.eps),
        {**piece.form.numbers(), **product.constants(), "K": piece.columns, "N": columns,
         "STRIDE": out.stride(0), "NORM_PARTS": 0 if norm is None else norm.parts, "ROWS": padded,
         "BN": tile.columns, "BLOCKS": tile.blocks, "SPLITS": tile.splits, "SCALED": following is not None,
         "PDL": card.dependent_launch},
        tile.warps, STAGES, weight_bytes=piece.nbytes,
    )  # fmt: skip


def gather_launch(
    piece: BlockRows, ids: Tensor, out: Tensor, rows: int, scale: float, next_norm: NextNorm | None, card: Card
) -> Launch:
    """Return the launch that decodes a piece's rows for ids [rows], times `scale`; an id below 0 gives zeros."""
    sides = (out, out, out) if next_norm is None else (next_norm.gain, next_norm.scaled, next_norm.squares)
    return Launch(
        "embed", gather_blocks, (rows,), (ids, piece.words, piece.scales, piece.factors, out, *sides, scale),
        {**piece.form.numbers(), "K": piece.columns, "BLOCKS": ceil_power(piece.columns // BLOCK),
         "SCALED": next_norm is not None, "PDL": card.dependent_launch},
    )  # fmt: skip


def expansion_launch(piece: BlockRows, out: Tensor) -> Launch:
    """Return the launch that decodes a piece into the first rows of `out` [..., K]."""
    columns, blocks = 8, 16
    grid = (-(-piece.rows // columns), -(-piece.columns // BLOCK // blocks))
    return Launch(
        "expansion", expand_blocks, grid, (piece.words, piece.scales, piece.factors, out),
        {**piece.form.numbers(), "K": piece.columns, "N": piece.rows, "BN": columns, "BLOCKS": blocks},
    )  # fmt: skip
