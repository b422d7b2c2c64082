"""Feed-forward layers."""

from __future__ import annotations

from torch import Tensor

from antiphon.layers.linear import Linear
from antiphon.layers.module import Module
from antiphon.ops import Activation
from antiphon.weights.source import Source


class GatedMLP(Module):
    """down(activation(gate(x)) * up(x)) + residual, with gate and up fused."""

    def __init__(self, source: Source, hidden: int, intermediate: int, activation: Activation = "silu_gate") -> None:
        sizes = (intermediate, intermediate)
        self.gate_up = Linear(source, ("gate_proj", "up_proj"), hidden, sizes, activation=activation)
        self.down = Linear(source, "down_proj", intermediate, hidden)

    def __call__(self, x: Tensor, residual: Tensor | None = None, adapters: Tensor | None = None) -> Tensor:
        return self.down(self.gate_up(x, adapters=adapters), residual, adapters)


class MLP(Module):
    """second(activation(first(x))) + residual, both with bias."""

    def __init__(
        self, source: Source, first: str, second: str, hidden: int, intermediate: int, activation: Activation
    ) -> None:
        self.first = Linear(source, first, hidden, intermediate, bias=True, activation=activation)
        self.second = Linear(source, second, intermediate, hidden, bias=True)

    def __call__(self, x: Tensor, residual: Tensor | None = None, adapters: Tensor | None = None) -> Tensor:
        return self.second(self.first(x, adapters=adapters), residual, adapters)
