"""`RowScaledMatrix`: a weight in e4m3, the 8-bit float, with one scale per row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.ops.triton.epilogue import finish
from antiphon.ops.triton.kernel_launch import Call, Launch, run_now
from antiphon.ops.triton.kernels.quantised.fp8_product import fp8_vector_product
from antiphon.ops.triton.launch import Card, card, ceil_power
from antiphon.ops.triton.library import multiply, product
from antiphon.ops.triton.quantised.launches import STAGES, Product
from antiphon.ops.triton.quantised.matrix import rounded
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.types import Activation

#: Largest finite number of e4m3.
LARGEST = 448.0
#: Maximum rows of activations that are not rounded.
VECTOR_ROWS = 4
#: Number by which cuBLAS needs the rows and columns of an e4m3 weight to be divisible.
ALIGNED = 16


@dataclass(frozen=True)
class RowScaledMatrix:
    """Weight as `codes` float8_e4m3fn [N, K] and `scales` fp32 [N]; an element is their product."""

    codes: Tensor
    scales: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> RowScaledMatrix:
        """Quantise floats [N, K] on their device."""
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
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return the same as `QuantisedMatrix.product`; from sm_89 on, more than four rows are rounded to e4m3."""
        dtype = dtype or (x.dtype if residual is None else residual.dtype)
        if len(x) > VECTOR_ROWS:
            return finish(self._library_product(x, workspace, dtype), bias, activation, residual, dtype)
        width = self.rows // 2 if activation.endswith("_gate") else self.rows
        out = torch.empty(len(x), width, dtype=dtype, device=x.device)
        run_now([self.vector_launch(Product(x, out, len(x), activation, bias, residual), card(x.device))])
        return out

    def vector_launch(self, product: Product, on: Card) -> Launch:
        """Return the launch of a product of up to `VECTOR_ROWS` rows, norm included."""
        columns, norm = product.out.shape[1], product.norm
        return Launch(
            "product", fp8_vector_product, (-(-columns // 8),),
            (product.x, product.x if norm is None else norm.gain, self.codes.view(torch.uint8), self.scales,
             product.side(product.bias), product.side(product.residual), product.out, product.rows, product.eps),
            {**product.constants(), "ROWS": ceil_power(product.rows), "K": self.columns, "N": columns, "BN": 8,
             "BK": min(1024 if product.rows == 1 else 512, ceil_power(self.columns)), "NORM": norm is not None,
             "PDL": on.dependent_launch},
            stages=STAGES, weight_bytes=self.nbytes,
        )  # fmt: skip

    def library_calls(self, x: Tensor, out: Tensor, workspace: ProductWorkspace) -> list[Launch | Call]:
        """Return the calls of out = x · weightᵀ for many rows, which expand the weight if e4m3 cannot be multiplied."""
        if self.is_multiplied(x.device):
            return [Call("fp8 product", self.multiply, (x, out), weight_bytes=self.nbytes)]
        dense = workspace.scratch(self.rows, self.columns, x.dtype)
        return [
            Call("expansion", self.expand, (dense,)),
            Call("library product", multiply, (x, dense, out), weight_bytes=self.nbytes),
        ]

    def expanded(self, workspace: ProductWorkspace, dtype: torch.dtype) -> Tensor:
        """Return the decoded weight [N, K] in the workspace's scratch buffer, which the next call overwrites."""
        return self.expand(workspace.scratch(self.rows, self.columns, dtype))

    def expand(self, out: Tensor) -> Tensor:
        """Decode the weight into `out` [N, K], and return `out`."""
        return out.copy_(self.codes).mul_(self.scales.to(out.dtype)[:, None])

    def take(self, ids: Tensor, scale: float = 1.0) -> Tensor:
        """Return rows of the weight for ids [T], times `scale`: fp32 [T, K]; an id below 0 gives zeros."""
        kept = ids.clamp(min=0).long()
        rows = self.codes.view(torch.uint8)[kept].view(torch.float8_e4m3fn).float()
        return rows * (self.scales[kept] * (ids >= 0) * scale)[:, None]

    def is_multiplied(self, device: torch.device) -> bool:
        """Return whether the library multiplies the codes themselves, instead of the expanded weight."""
        return card(device).converts_fp8 and self.rows % ALIGNED == 0 and self.columns % ALIGNED == 0

    def multiply(self, x: Tensor, out: Tensor) -> None:
        """Compute out = x · weightᵀ with x rounded to e4m3."""
        out.copy_(self._scaled_product(x))

    def _library_product(self, x: Tensor, workspace: ProductWorkspace, dtype: torch.dtype) -> Tensor:
        if self.is_multiplied(x.device):
            return self._scaled_product(x)
        x = rounded(x)
        return product(x, self.expanded(workspace, x.dtype), dtype)

    def _scaled_product(self, x: Tensor) -> Tensor:
        codes, scales = quantise_rows(x)
        return torch._scaled_mm(
            codes, self.codes.T, scale_a=scales[:, None], scale_b=self.scales[None, :], out_dtype=torch.bfloat16
        )


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return e4m3 codes [T, K] and fp32 scales [T] of floats; each row's largest element becomes `LARGEST`."""
    wide = x.float()
    scales = (wide.abs().amax(dim=-1) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    codes = (wide / scales[:, None]).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return codes, scales
