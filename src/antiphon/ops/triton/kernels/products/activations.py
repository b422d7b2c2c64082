"""Activation functions of products, in fp32."""

from __future__ import annotations

import triton
import triton.language as tl

#: Numbers that kernels receive for the activations.
NONE, RELU, GELU, GELU_TANH, SILU = range(5)
NUMBERS = {"none": NONE, "relu": RELU, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU}

_RELU = tl.constexpr(RELU)
_GELU = tl.constexpr(GELU)
_GELU_TANH = tl.constexpr(GELU_TANH)
_SILU = tl.constexpr(SILU)


@triton.jit
def activate(x, KIND: tl.constexpr):
    """Apply the activation with number KIND to each element."""
    if KIND == _RELU:
        x = tl.maximum(x, 0.0)
    elif KIND == _GELU:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif KIND == _GELU_TANH:
        # 0.5 * (1 + tanh(u)) is the logistic function of 2 u
        x = x / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    elif KIND == _SILU:
        x = x / (1.0 + tl.exp(-x))
    return x
