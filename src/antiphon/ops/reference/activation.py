"""Functions of single elements, and gates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.types import Activation, Function


def activate(x: Tensor, function: Activation | Function) -> Tensor:
    """Apply a function to every element of x [..., C] → [..., C].

    The gates and `magnitude`, the length of (x[..., i], x[..., C / 2 + i]), return [..., C / 2].
    """
    match function:
        case "none":
            return x
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        case "silu":
            return F.silu(x)
        case "silu_gate":
            gate, value = x.chunk(2, dim=-1)
            return F.silu(gate) * value
        case "gelu_tanh_gate":
            gate, value = x.chunk(2, dim=-1)
            return F.gelu(gate, approximate="tanh") * value
        case "sigmoid":
            # In float32 the last bit would depend on the element's index: torch computes an array's end differently.
            return torch.sigmoid(x.double()).to(x.dtype)
        case "magnitude":
            real, imaginary = x.chunk(2, dim=-1)
            return (real.square() + imaginary.square()).sqrt_()
    raise ValueError(f"unknown activation {function!r}")
