"""`QuantisedMatrix`: a weight whose rows stay block-quantised on the GPU, with its products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
import triton
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.triton.epilogue import finish
from antiphon.ops.triton.kernels.products.activations import NUMBERS
from antiphon.ops.triton.kernels.quantised.expansion import expand_blocks, gather_blocks
from antiphon.ops.triton.kernels.quantised.row_product import quantised_row_product
from antiphon.ops.triton.kernels.quantised.vector_product import quantised_vector_product
from antiphon.ops.triton.quantised.activations import packed
from antiphon.ops.triton.quantised.forms import FORMS, WIDTH
from antiphon.ops.triton.quantised.repacking import BlockRows, repack
from antiphon.ops.triton.quantised.tiles import BlockRowTile, BlockVectorTile, row_tile, vector_tile
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight, WeightPart

#: Rows of activations up to which weights are read as they are quantised; with more they are expanded.
MAX_ROWS = 64


def can_prepare(weight: Weight) -> bool:
    """Whether every part of the weight has a type that the kernels read."""
    return bool(weight.parts) and all(part.type in FORMS for part in weight.parts)


@dataclass(frozen=True)
class QuantisedMatrix:
    """Repacked rows of a weight, one piece for each run of a type; the columns of a product follow in that order."""

    pieces: tuple[BlockRows, ...]
    columns: int

    @classmethod
    def of(cls, weight: Weight, device: torch.device | str) -> QuantisedMatrix:
        """Repack a weight on the device. Its bytes are uploaded as they are and put in order there."""
        if not can_prepare(weight):
            names = ", ".join(sorted({part.type.name for part in weight.parts} - {type.name for type in FORMS}))
            raise UnsupportedError(f"the GPU's quantised products do not read {names or 'a weight without parts'}")
        return cls(
            tuple(
                repack(_rows(list(run), device), type, weight.columns)
                for type, run in groupby(weight.parts, lambda part: part.type)
            ),
            weight.columns,
        )

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def device(self) -> torch.device:
        return self.pieces[0].words.device

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def product(
        self,
        x: Tensor,
        workspace: ProductWorkspace,
        bias: Tensor | None = None,
        activation: Activation = "none",
        residual: Tensor | None = None,
        out: Tensor | None = None,
        dtype: torch.dtype | None = None,
        gain: Tensor | None = None,
        eps: float = 0.0,
        pdl: bool = False,
    ) -> Tensor:
        """activation(x [T, K] · weightᵀ + bias) + residual → [T, N], or [T, N / 2] for a gated activation.

        With `gain` (a single row only) x is first normalised by its root mean square and multiplied by it. The result
        is `out` if given, else new and of `dtype`, else of the residual's type or that of x. With several rows, an x in
        fp32 is rounded to bf16.
        """
        gated = activation.endswith("_gate")
        width = self.rows // 2 if gated else self.rows
        if out is None:
            kept = dtype or (x.dtype if residual is None else residual.dtype)
            out = torch.empty(len(x), width, dtype=kept, device=x.device)
        if gain is not None and len(x) != 1:
            raise ValueError(f"a norm is computed inside the product of 1 row, not {len(x)}")
        if gated and not self.is_gated_in_kernel(width):
            y = self.product(x, workspace, bias, dtype=torch.float32, gain=gain, eps=eps, pdl=pdl)
            return finish(y, None, activation, residual, out)
        if len(x) > 1:
            x = rounded(x)
        if len(x) > MAX_ROWS:
            y = multiply(x, self.expanded(workspace, x.dtype), out.dtype)
            return finish(y, bias, activation, residual, out)
        row = packed(x, gain, pdl) if len(x) == 1 else x
        for piece, first in self.placed():
            columns = piece.rows // 2 if gated else piece.rows
            target, kept_residual = out[:, first:], None if residual is None else residual[:, first:]
            piece_bias = None if bias is None else bias[first:]
            if len(x) == 1:
                norm_eps = None if gain is None else eps
                vector_product(piece, row, target, columns, piece_bias, activation, kept_residual, norm_eps, pdl)
            else:
                row_product(piece, x, target, columns, workspace, piece_bias, activation, kept_residual, pdl)
        return out

    def expanded(self, workspace: ProductWorkspace, dtype: torch.dtype) -> Tensor:
        """The decoded weight [N, K] in the workspace's scratch buffer, which the next call overwrites."""
        out = workspace.scratch(self.rows, self.columns, dtype)
        for piece, first in self.placed():
            expand(piece, out[first:])
        return out

    def take(self, ids: Tensor, scale: float = 1.0, pdl: bool = False) -> Tensor:
        """Rows of the weight for ids [T], times `scale` → fp32 [T, K]; zeros for an id below 0."""
        if len(self.pieces) == 1:
            return _take(self.pieces[0], ids, scale, pdl)
        out = torch.zeros(len(ids), self.columns, dtype=torch.float32, device=ids.device)
        for piece, first in self.placed():
            is_own = (ids >= first) & (ids < first + piece.rows)
            out += _take(piece, torch.where(is_own, ids - first, -1), scale, pdl)
        return out

    def placed(self) -> Iterator[tuple[BlockRows, int]]:
        """Each piece and the first of its rows."""
        first = 0
        for piece in self.pieces:
            yield piece, first
            first += piece.rows

    def is_gated_in_kernel(self, width: int) -> bool:
        """Whether kernels apply the gate of a result of this width themselves."""
        return len(self.pieces) == 1 and width % WIDTH == 0


def _take(piece: BlockRows, ids: Tensor, scale: float, pdl: bool) -> Tensor:
    out = torch.empty(len(ids), piece.columns, dtype=torch.float32, device=ids.device)
    blocks = triton.next_power_of_2(piece.columns // 32)
    if len(ids):
        gather_blocks[(len(ids),)](
            ids, piece.words, piece.scales, piece.factors, out, out, out, out, scale, **piece.form.numbers(),
            K=piece.columns, BLOCKS=blocks, SCALED=False, PDL=pdl, **launch_options(4, pdl),
        )  # fmt: skip
    return out


def vector_product(
    piece: BlockRows, x: Tensor, y: Tensor, columns: int,
    bias: Tensor | None, activation: Activation, residual: Tensor | None, norm_eps: float | None, pdl: bool,
    tile: BlockVectorTile | None = None,
) -> None:  # fmt: skip
    """The product of one packed row x, divided by its root mean square if `norm_eps` is given, into y [1, columns]."""
    gated = activation.endswith("_gate")
    tile = tile or vector_tile(piece.form, piece.columns, columns, gated)
    quantised_vector_product[(triton.cdiv(columns, tile.columns),)](
        x, piece.words, piece.scales, piece.factors, x if bias is None else bias, x if residual is None else residual,
        y, norm_eps or 0.0, **piece.form.numbers(), K=piece.columns, N=columns, BN=tile.columns,
        BLOCKS=tile.blocks, NORM=norm_eps is not None, GATED=gated,
        ACTIVATION=NUMBERS[activation.removesuffix("_gate")], BIAS=bias is not None, RESIDUAL=residual is not None,
        PDL=pdl, **launch_options(tile.warps, pdl),
    )  # fmt: skip


def row_product(
    piece: BlockRows, x: Tensor, y: Tensor, columns: int, workspace: ProductWorkspace,
    bias: Tensor | None, activation: Activation, residual: Tensor | None, pdl: bool, tile: BlockRowTile | None = None,
) -> None:  # fmt: skip
    """The product of x [T, K], T up to 64, into y [T, columns], which may be columns of a wider tensor."""
    gated = activation.endswith("_gate")
    tile = tile or row_tile(columns, piece.columns, workspace.multiprocessors)
    if residual is not None and residual.stride(0) != y.stride(0):
        raise ValueError(f"rows of residual and result lie {residual.stride(0)} and {y.stride(0)} elements apart")
    rows = max(16, triton.next_power_of_2(len(x)))
    programs = triton.cdiv(columns, tile.columns)
    partial, counters = workspace.splits(tile.splits, columns * (2 if gated else 1) * rows, programs)
    quantised_row_product[(programs, tile.splits)](
        x.contiguous(), x, piece.words, piece.scales, piece.factors, x if bias is None else bias,
        x if residual is None else residual, x, y, y, y, partial, counters, len(x), 0.0, **piece.form.numbers(),
        K=piece.columns, N=columns, STRIDE=y.stride(0), NORM_PARTS=0, ROWS=rows, BN=tile.columns, BLOCKS=tile.blocks,
        SPLITS=tile.splits, GATED=gated, ACTIVATION=NUMBERS[activation.removesuffix("_gate")], BIAS=bias is not None,
        RESIDUAL=residual is not None, SCALED=False, PDL=pdl, **launch_options(tile.warps, pdl),
    )  # fmt: skip


def expand(piece: BlockRows, out: Tensor, columns: int = 8, blocks: int = 16, warps: int = 4) -> None:
    """Decode the rows of a piece into the first rows of `out` [..., K]."""
    grid = (triton.cdiv(piece.rows, columns), triton.cdiv(piece.columns // 32, blocks))
    expand_blocks[grid](
        piece.words, piece.scales, piece.factors, out, **piece.form.numbers(),
        K=piece.columns, N=piece.rows, BN=columns, BLOCKS=blocks, num_warps=warps,
    )  # fmt: skip


def rounded(x: Tensor) -> Tensor:
    """x in a type that tensor cores multiply exactly: fp32 becomes bf16. The interpreter keeps it."""
    return x.bfloat16() if x.is_cuda and x.dtype is torch.float32 else x


def multiply(x: Tensor, matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """x · matrixᵀ by the library, in fp32 if that is `dtype`, else in the type of x."""
    if x.is_cuda and dtype is torch.float32:
        return torch.mm(x, matrix.T, out_dtype=torch.float32)
    return x @ matrix.T


def _rows(parts: list[WeightPart], device: torch.device | str) -> Tensor:
    moved = [part.data.to(device) for part in parts]
    return moved[0] if len(moved) == 1 else torch.cat(moved)


def launch_options(warps: int, pdl: bool) -> dict[str, int | bool]:
    """The options of a launch; dependent launch is one only where the card has it."""
    return {"num_warps": warps, "launch_pdl": True} if pdl else {"num_warps": warps}
