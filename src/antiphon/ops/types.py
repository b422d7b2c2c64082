"""Small value types that operations take beside tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

#: Activations that `linear` and `conv1d` apply to the product. The `*_gate` kinds expect the gate in the first half of
#: the rows and the value in the second, and return activation(gate) * value.
Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "silu_gate", "gelu_tanh_gate"]

#: Further functions of `activate`. `magnitude` takes real parts in the first half, imaginary parts in the second.
Function = Literal["sigmoid", "magnitude"]

#: Encoding of a duration in logits: the sum of their sigmoids, or exp - 1 of a single logit.
CountScale = Literal["sigmoid", "expm1"]


@dataclass(frozen=True)
class WeightForm:
    """Form that the rows of one type have after preparation."""

    type: TensorType
    stored_bytes: int
    resident_bytes: int
    packed: bool = False
    quantized: TensorType | None = None  # type that floats were converted to; None if they were not


def rounds_inputs(weight: Weight) -> bool:
    """Return whether products with the weight round their other operand to int8, as for all packed weights."""
    return any(getattr(form, "is_packed", False) for form in weight.packed.values())


@dataclass(frozen=True)
class RotaryTable:
    """Cosines and sines by position, for the half-split layout.

    `values` is fp32 [positions, rotated]: cosines in the first half, sines in the second. `rotated` may be
    smaller than the head; the remaining channels are not rotated. With positions [A, T], channel pair j uses
    the positions of axis `axis[j]`.
    """

    values: Tensor
    axis: Tensor | None = None  # int64 [rotated / 2]


@dataclass(frozen=True)
class LSTMWeights:
    """Weights of one direction of an LSTM layer, gates in PyTorch's order: input, forget, cell, output."""

    input: Tensor  # [4 * hidden, inputs]
    hidden: Tensor  # [4 * hidden, hidden]
    input_bias: Tensor  # [4 * hidden]
    hidden_bias: Tensor  # [4 * hidden]


@dataclass(frozen=True)
class SamplingRows:
    """Sampling parameters by row. Randomness is Philox(seed, index): a row's token depends on no other row."""

    temperature: Tensor  # float32 [R]; 0 is greedy
    top_k: Tensor  # int32 [R]; 0 keeps all
    top_p: Tensor  # float32 [R]; 1 keeps all
    min_p: Tensor  # float32 [R]; 0 keeps all
    seed: Tensor  # int64 [R]
    index: Tensor  # int64 [R], number of tokens that the request has output so far
