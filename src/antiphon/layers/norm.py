"""Normalisation layers."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.module import Module
from antiphon.weights.source import Source


class Norm(Module):
    """Base of norms. `out_type` is the type of their results; None keeps the type of their input."""

    out_type: torch.dtype | None = None

    def set_compute_type(self, dtype: torch.dtype | None) -> None:
        self.out_type = dtype


class RMSNorm(Norm):
    """Root-mean-square norm over the last dimension. `offset` is added to the stored weight (Gemma stores w - 1)."""

    def __init__(self, source: Source, name: str, width: int, eps: float, offset: float = 0.0) -> None:
        weight = source.tensor(f"{name}.weight", (width,))
        self.weight = weight + offset if offset else weight
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.weight, self.eps, None, self.out_type)[0]

    def after(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return (norm(x + residual), x + residual)."""
        return ops.rms_norm(x, self.weight, self.eps, residual, self.out_type)


class LayerNorm(Norm):
    def __init__(self, source: Source, name: str, width: int, eps: float) -> None:
        self.weight = source.tensor(f"{name}.weight", (width,))
        self.bias = source.tensor(f"{name}.bias", (width,))
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, self.eps, None, self.out_type)[0]
