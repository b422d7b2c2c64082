"""Products with int8 rows with one scale each, for weights that are always applied to many tokens at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from antiphon.ops.native.extension import available, extension
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.threads import default_threads
from antiphon.ops.types import Activation

#: Number of rows in a panel, and divisor of the number of columns.
PANEL, COLUMNS = 16, 64


@cache
def has_row_scaled(variant: int = 0) -> bool:
    """Return whether this processor has kernels for int8 rows with one scale each."""
    return available() and extension().has_row_scaled(variant)


@dataclass(frozen=True)
class ScaledRows:
    """Weight [rows, columns] as the extension reads it: int8 with one scale per row."""

    panels: Tensor  # int8 [rows / 16, columns / 4, 16, 4]
    scales: Tensor  # fp32 [rows, rounded up to a multiple of 16]
    rows: int
    columns: int

    is_packed = True

    @property
    def nbytes(self) -> int:
        return self.panels.nbytes + self.scales.nbytes

    @classmethod
    def of(cls, weight: Tensor, variant: int = 0) -> ScaledRows:
        weight = weight.float().contiguous()
        rows, columns = weight.shape
        panels = torch.zeros(-(-rows // PANEL), columns // 4, PANEL, 4, dtype=torch.int8)
        scales = torch.zeros(len(panels) * PANEL)
        extension().pack_row_scaled(weight.data_ptr(), rows, columns, panels.data_ptr(), scales.data_ptr(), variant)
        return cls(panels, scales, rows, columns)


def multiply(
    x: Tensor,
    weight: ScaledRows,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    """Compute activation(x [T, columns] · weightᵀ + bias) + residual → fp32 [T, rows], each row of x rounded to int8.

    x must be fp32 with contiguous rows.
    """
    tokens = x.shape[0]
    out = torch.empty(tokens, weight.rows)
    extension().multiply_row_scaled(
        weight.panels.data_ptr(), weight.scales.data_ptr(), weight.rows, weight.columns, x.data_ptr(), x.stride(0),
        tokens, 0 if bias is None else bias.data_ptr(), ACTIVATIONS[activation][0],
        0 if residual is None else residual.data_ptr(), 0 if residual is None else residual.stride(0), out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out
