"""Normalisation layers."""

from __future__ import annotations

from torch import Tensor

from antiphon import ops
from antiphon.layers.module import Module
from antiphon.weights.source import Source


class RMSNorm(Module):
    """Root-mean-square norm over the last dimension. `offset` is added to the stored weight (Gemma stores w - 1)."""

    def __init__(self, source: Source, name: str, width: int, eps: float, offset: float = 0.0) -> None:
        weight = source.tensor(f"{name}.weight", (width,))
        self.weight = weight + offset if offset else weight
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.weight, self.eps)[0]

    def after(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """(norm(x + residual), x + residual)."""
        return ops.rms_norm(x, self.weight, self.eps, residual)


class LayerNorm(Module):
    """Layer norm over the last dimension."""

    def __init__(self, source: Source, name: str, width: int, eps: float) -> None:
        self.weight = source.tensor(f"{name}.weight", (width,))
        self.bias = source.tensor(f"{name}.bias", (width,))
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, self.eps)[0]
