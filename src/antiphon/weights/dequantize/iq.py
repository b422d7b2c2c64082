"""Decoders of GGML's IQ types, whose elements are rows of a fixed codebook, or entries of a non-linear 4-bit table.

Each decodes uint8 [blocks, block bytes] to float32 [blocks, block elements]. Codebooks, and the decoders of types with
one, come from the `gguf` package, which is imported on first use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.weights.dequantize.bits import halves, nibbles, uint16, unpack
from antiphon.weights.types import TensorType

#: Values of the sixteen codes of IQ4_NL and IQ4_XS.
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
#: Types whose elements are rows of a codebook.
WITH_CODEBOOK = (
    TensorType.IQ2_XXS,
    TensorType.IQ2_XS,
    TensorType.IQ2_S,
    TensorType.IQ3_XXS,
    TensorType.IQ3_S,
    TensorType.IQ1_S,
    TensorType.IQ1_M,
)


@cache
def iq_grid(type: TensorType) -> Tensor:
    """Return the codebook of an IQ type, int8 [entries, 8] (IQ3 types: [entries, 4]). Callers must not write to it."""
    holder = getattr(_quants(type), type.name, None)
    if holder is None or getattr(holder, "grid_hex", None) is None:
        raise UnsupportedError(f"{type.name} has no codebook")
    holder.init_grid()
    return torch.from_numpy(holder.grid.reshape(holder.grid_shape)).to(torch.int8)


def by_codebook(type: TensorType, blocks: Tensor) -> Tensor:
    values = _quants(type).dequantize(blocks.cpu().numpy(), int(type))
    return torch.from_numpy(values).to(blocks.device)


def _quants(type: TensorType) -> Any:
    try:
        from gguf import quants
    except ImportError as error:
        raise UnsupportedError(f"{type.name} tensors need the codebooks in the `gguf` package: install it") from error
    return quants


def iq4_nl(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, 16 bytes of nibbles into a fixed table."""
    return halves(blocks[:, :2]) * _iq4_values(nibbles(blocks[:, 2:], 16))


def iq4_xs(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, 16 high scale bits, 4 bytes of low scale nibbles, 128 bytes of nibbles.

    Sub-blocks have 32 elements.
    """
    count = blocks.shape[0]
    low = unpack(blocks[:, 4:8].unsqueeze(-1), (0, 4), 0x0F).reshape(count, 8)
    high = uint16(blocks[:, 2:4]) >> torch.arange(0, 16, 2, device=blocks.device) & 3
    scale = halves(blocks[:, :2]) * ((low.to(torch.int32) | high << 4).float() - 32)
    return (scale.unsqueeze(-1) * _iq4_values(nibbles(blocks[:, 8:], 16)).view(count, 8, 32)).view(count, 256)


def _iq4_values(codes: Tensor) -> Tensor:
    return torch.tensor(IQ4_VALUES, dtype=torch.float32, device=codes.device)[codes.to(torch.int32)]
