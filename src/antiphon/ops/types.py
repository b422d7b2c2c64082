"""Small value types that operations take beside tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

#: What `linear` and `conv1d` apply to the product. The `*_gate` kinds expect the gate's rows first and as many
#: rows of the value after them, and give activation(gate) * value.
Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "silu_gate", "gelu_tanh_gate"]

#: What `activate` applies beside these. `magnitude` takes real parts and as many imaginary parts after them.
Function = Literal["sigmoid", "magnitude"]

#: How logits encode a duration: as the sum of their sigmoids, or as exp - 1 of a single one.
CountScale = Literal["sigmoid", "expm1"]


@dataclass(frozen=True)
class WeightForm:
    """The form that rows of one type have after preparation."""

    type: TensorType
    stored_bytes: int
    resident_bytes: int
    packed: bool = False
    quantized: TensorType | None = None  # what floats became


def rounds_inputs(weight: Weight) -> bool:
    """Whether products with the weight round their other operand to int8, as those with packed weights do."""
    return any(getattr(form, "is_packed", False) for form in weight.packed.values())


@dataclass(frozen=True)
class RotaryTable:
    """Cosines and sines by position, for a half-split layout.

    `values` is fp32 [positions, rotated]: cosines in the first half, sines in the second. `rotated` may be
    smaller than the head; the remaining channels pass through. With positions [A, T], channel pair j follows
    axis `axis[j]`.
    """

    values: Tensor
    axis: Tensor | None = None  # int64 [rotated / 2]


@dataclass(frozen=True)
class LSTMWeights:
    """One direction of an LSTM layer, gates in PyTorch's order: input, forget, cell, output."""

    input: Tensor  # [4 * hidden, inputs]
    hidden: Tensor  # [4 * hidden, hidden]
    input_bias: Tensor  # [4 * hidden]
    hidden_bias: Tensor  # [4 * hidden]


@dataclass(frozen=True)
class SamplingRows:
    """Sampling parameters by row. Randomness is Philox(seed, output index), so a row's draw depends on no other row."""

    temperature: Tensor  # float32 [R]; 0 is greedy
    top_k: Tensor  # int32 [R]; 0 keeps all
    top_p: Tensor  # float32 [R]; 1 keeps all
    min_p: Tensor  # float32 [R]; 0 keeps all
    seed: Tensor  # int64 [R]
    index: Tensor  # int64 [R], how many tokens the request has output so far
