"""`RowScaledMatrix`: a weight in e4m3, the 8-bit float, with one scale for each row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from antiphon.ops.triton.epilogue import finish
from antiphon.ops.triton.kernels.products.activations import NUMBERS
from antiphon.ops.triton.kernels.quantised.fp8_product import fp8_vector_product
from antiphon.ops.triton.quantised.matrix import launch_options, multiply, rounded
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.types import Activation

#: The largest number of e4m3.
LARGEST = 448.0
#: Rows of activations up to which they are not rounded.
VECTOR_ROWS = 4
#: What cuBLAS needs of the sizes of a product in e4m3.
ALIGNED = 16


@dataclass(frozen=True)
class RowScaledMatrix:
    """`codes` float8_e4m3fn [N, K] and `scales` fp32 [N]; an element is their product."""

    codes: Tensor
    scales: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> RowScaledMatrix:
        """Quantise floats [N, K], where they are."""
        return cls(*quantise_rows(matrix))

    @property
    def rows(self) -> int:
        return self.codes.shape[0]

    @property
    def columns(self) -> int:
        return self.codes.shape[1]

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes

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
        """As `QuantisedMatrix.product`. With more than four rows x is rounded to e4m3 too, from sm_89 on."""
        gated = activation.endswith("_gate")
        width = self.rows // 2 if gated else self.rows
        if out is None:
            kept = dtype or (x.dtype if residual is None else residual.dtype)
            out = torch.empty(len(x), width, dtype=kept, device=x.device)
        if len(x) <= VECTOR_ROWS:
            self._vector_product(x.contiguous(), out, width, bias, activation, residual, gain, eps, pdl)
            return out
        if gain is not None:
            raise ValueError(f"a norm is computed inside the product of up to {VECTOR_ROWS} rows, not {len(x)}")
        return finish(self._library_product(x, workspace, out.dtype), bias, activation, residual, out)

    def expanded(self, workspace: ProductWorkspace, dtype: torch.dtype) -> Tensor:
        """The decoded weight [N, K] in the workspace's scratch buffer, which the next call overwrites."""
        return self.expand(workspace.scratch(self.rows, self.columns, dtype))

    def expand(self, out: Tensor) -> Tensor:
        """The decoded weight in `out` [N, K]."""
        return out.copy_(self.codes).mul_(self.scales.to(out.dtype)[:, None])

    def take(self, ids: Tensor, scale: float = 1.0, pdl: bool = False) -> Tensor:
        """Rows of the weight for ids [T], times `scale` → fp32 [T, K]; zeros for an id below 0."""
        kept = ids.clamp(min=0).long()
        rows = self.codes.view(torch.uint8)[kept].view(torch.float8_e4m3fn).float()
        return rows * (self.scales[kept] * (ids >= 0) * scale)[:, None]

    def is_multiplied(self, workspace: ProductWorkspace) -> bool:
        """Whether the library multiplies the codes themselves."""
        return workspace.multiplies_fp8 and self.rows % ALIGNED == 0 and self.columns % ALIGNED == 0

    def multiply(self, x: Tensor, out: Tensor) -> None:
        """out = x · weightᵀ, of x rounded to e4m3."""
        out.copy_(self._scaled_product(x))

    def _vector_product(
        self, x: Tensor, y: Tensor, width: int, bias: Tensor | None, activation: Activation, residual: Tensor | None,
        gain: Tensor | None, eps: float, pdl: bool,
    ) -> None:  # fmt: skip
        columns, depth, warps = 8, 1024 if len(x) == 1 else 512, 4
        fp8_vector_product[(triton.cdiv(width, columns),)](
            x, x if gain is None else gain, self.codes.view(torch.uint8), self.scales, x if bias is None else bias,
            x if residual is None else residual.contiguous(), y, len(x), eps, ROWS=triton.next_power_of_2(len(x)),
            K=self.columns, N=width, BN=columns, BK=min(depth, triton.next_power_of_2(self.columns)),
            NORM=gain is not None, GATED=activation.endswith("_gate"),
            ACTIVATION=NUMBERS[activation.removesuffix("_gate")], BIAS=bias is not None,
            RESIDUAL=residual is not None, PDL=pdl, **launch_options(warps, pdl),
        )  # fmt: skip

    def _library_product(self, x: Tensor, workspace: ProductWorkspace, dtype: torch.dtype) -> Tensor:
        if self.is_multiplied(workspace):
            return self._scaled_product(x)
        x = rounded(x)
        return multiply(x, self.expanded(workspace, x.dtype), dtype)

    def _scaled_product(self, x: Tensor) -> Tensor:
        codes, scales = quantise_rows(x)
        return torch._scaled_mm(
            codes, self.codes.T, scale_a=scales[:, None], scale_b=self.scales[None, :], out_dtype=torch.bfloat16
        )


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Floats [T, K] as e4m3 codes and scales fp32 [T]; the largest element of a row becomes the largest number."""
    wide = x.float()
    scales = (wide.abs().amax(dim=-1) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    codes = (wide / scales[:, None]).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return codes, scales
