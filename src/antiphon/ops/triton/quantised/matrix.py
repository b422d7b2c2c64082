"""`QuantisedMatrix`: a weight whose rows stay block-quantised on the GPU, with its products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.triton.epilogue import finish
from antiphon.ops.triton.kernel_launch import Call, Launch, run_now
from antiphon.ops.triton.launch import Card, card, counters, empty
from antiphon.ops.triton.library import multiply, product
from antiphon.ops.triton.quantised.activations import packed_words
from antiphon.ops.triton.quantised.forms import FORMS, WIDTH
from antiphon.ops.triton.quantised.launches import (
    Product,
    Scratch,
    expansion_launch,
    gather_launch,
    pack_launch,
    row_launch,
    vector_launch,
)
from antiphon.ops.triton.quantised.repacking import BlockRows, repack
from antiphon.ops.triton.quantised.tiles import row_tile
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight, WeightPart

#: Maximum rows of activations for kernels that read quantised weights; with more, weights are expanded first.
MAX_ROWS = 64


def can_prepare(weight: Weight) -> bool:
    """Return whether the kernels read the types of all parts of the weight."""
    return bool(weight.parts) and all(part.type in FORMS for part in weight.parts)


@dataclass(frozen=True)
class QuantisedMatrix:
    """Repacked rows of a weight: one piece for each run of parts of one type, in the order of a product's columns."""

    pieces: tuple[BlockRows, ...]
    columns: int

    @classmethod
    def of(cls, weight: Weight, device: torch.device | str) -> QuantisedMatrix:
        """Upload a weight's bytes and repack them on the device."""
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
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return activation(x [T, K] · weightᵀ + bias) + residual: [T, N], or [T, N / 2] for a gated activation.

        The result has `dtype`; by default the residual's type, or that of x. With several rows, an fp32 x is rounded to
        bf16.
        """
        gated = activation.endswith("_gate")
        width = self.rows // 2 if gated else self.rows
        out = torch.empty(
            len(x), width, dtype=dtype or (x.dtype if residual is None else residual.dtype), device=x.device
        )
        if len(x) > 1:
            x = rounded(x)
        if len(x) > MAX_ROWS:
            wide = gated and not self.is_gated_in_kernel(width)
            y = product(x, self.expanded(workspace, x.dtype), torch.float32 if wide else out.dtype)
            return finish(y, bias, activation, residual, out)
        given, on, scratch = (
            Product(x, out, len(x), activation, bias, residual),
            card(x.device),
            partial(empty, x.device),
        )
        if len(x) == 1:
            run_now(self.vector_launches(given, scratch, on))
        else:
            run_now(self.row_launches(given, counters(x.device, -(-self.rows // WIDTH)), scratch, on))
        return out

    def vector_launches(self, product: Product, scratch: Scratch, on: Card) -> list[Launch]:
        """Return the launches of a product of one row, norm included."""
        if product.rows != 1:
            raise ValueError(f"the vector product of quantised weights takes 1 row, not {product.rows}")
        if product.gated and not self.is_gated_in_kernel(product.out.shape[1]):
            inner, finish = product.divided(self.rows, scratch)
            return [*self.vector_launches(inner, scratch, on), finish]
        launches, packed = [], product.packed
        if packed is None:
            packed = scratch((packed_words(self.columns),), torch.int32)
            launches.append(pack_launch(product, packed, on))
        return launches + [vector_launch(piece, first, packed, product, on) for piece, first in self.placed()]

    def row_launches(self, product: Product, counters: Tensor, scratch: Scratch, on: Card) -> list[Launch]:
        """Return the launches of a product of up to 64 rows, on tensor cores."""
        if product.gated and not self.is_gated_in_kernel(product.out.shape[1]):
            inner, finish = product.divided(self.rows, scratch)
            return [*self.row_launches(inner, counters, scratch, on), finish]
        launches: list[Launch] = []
        for piece, first in self.placed():
            part = sum(launch.grid[0] for launch in launches)
            launches.append(row_launch(piece, first, part, product, counters, scratch, on))
        return launches

    def scaled_parts(self, columns: int, gated: bool, on: Card) -> int:
        """Return how many sums of squares per row `row_launches` writes for the next norm; 0 if it writes none."""
        if gated:
            pieces = [(self.columns, columns)] if self.is_gated_in_kernel(columns) else []
        else:
            pieces = [(piece.columns, piece.rows) for piece in self.pieces]
        return sum(-(-width // row_tile(width, depth, on.multiprocessors).columns) for depth, width in pieces)

    def library_calls(self, x: Tensor, out: Tensor, workspace: ProductWorkspace) -> list[Launch | Call]:
        """Return the calls of out = x · weightᵀ for many rows, which expand the weight first.

        The launches keep the scratch buffer, which steps and operations of a stream share, from being freed.
        """
        dense = workspace.scratch(self.rows, self.columns, x.dtype)
        return [
            *self._expansions(dense), Call("library product", multiply, (x, dense, out), weight_bytes=self.nbytes)
        ]  # fmt: skip

    def expanded(self, workspace: ProductWorkspace, dtype: torch.dtype) -> Tensor:
        """Return the decoded weight [N, K] in the workspace's scratch buffer, which the next call overwrites."""
        out = workspace.scratch(self.rows, self.columns, dtype)
        run_now(self._expansions(out))
        return out

    def _expansions(self, out: Tensor) -> list[Launch]:
        return [expansion_launch(piece, out[first:]) for piece, first in self.placed()]

    def take(self, ids: Tensor, scale: float = 1.0) -> Tensor:
        """Return rows of the weight for ids [T], times `scale`: fp32 [T, K]; an id below 0 gives zeros."""
        if len(self.pieces) == 1:
            return _take(self.pieces[0], ids, scale)
        out = torch.zeros(len(ids), self.columns, dtype=torch.float32, device=ids.device)
        for piece, first in self.placed():
            is_own = (ids >= first) & (ids < first + piece.rows)
            out += _take(piece, torch.where(is_own, ids - first, -1), scale)
        return out

    def placed(self) -> Iterator[tuple[BlockRows, int]]:
        """Yield each piece with the index of its first row in the weight."""
        first = 0
        for piece in self.pieces:
            yield piece, first
            first += piece.rows

    def is_gated_in_kernel(self, width: int) -> bool:
        """Return whether kernels apply the gate of a result of this width themselves."""
        return len(self.pieces) == 1 and width % WIDTH == 0


def _take(piece: BlockRows, ids: Tensor, scale: float) -> Tensor:
    out = torch.empty(len(ids), piece.columns, dtype=torch.float32, device=ids.device)
    if len(ids):
        run_now([gather_launch(piece, ids, out, len(ids), scale, None, card(ids.device))])
    return out


def rounded(x: Tensor) -> Tensor:
    """Return x in a type that tensor cores multiply exactly: fp32 becomes bf16, except under the interpreter."""
    return x.bfloat16() if x.is_cuda and x.dtype is torch.float32 else x


def _rows(parts: list[WeightPart], device: torch.device | str) -> Tensor:
    moved = [part.data.to(device) for part in parts]
    return moved[0] if len(moved) == 1 else torch.cat(moved)
