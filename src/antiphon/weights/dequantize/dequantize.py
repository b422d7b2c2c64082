"""Decoding of stored tensors to float32: a table of decoders by tensor type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.dequantize import basic, iq, k
from antiphon.weights.dequantize.iq import iq_grid
from antiphon.weights.types import TORCH_DTYPES, TensorType

__all__ = ["DECODERS", "dequantize", "iq_grid"]

#: A function from uint8 [blocks, block bytes] to float32 [blocks, block elements].
Decoder = Callable[[Tensor], Tensor]

DECODERS: dict[TensorType, Decoder] = {
    TensorType.Q4_0: basic.q4_0,
    TensorType.Q4_1: basic.q4_1,
    TensorType.Q5_0: basic.q5_0,
    TensorType.Q5_1: basic.q5_1,
    TensorType.Q8_0: basic.q8_0,
    TensorType.Q2_K: k.q2_k,
    TensorType.Q3_K: k.q3_k,
    TensorType.Q4_K: k.q4_k,
    TensorType.Q5_K: k.q5_k,
    TensorType.Q6_K: k.q6_k,
    TensorType.TQ1_0: basic.tq1_0,
    TensorType.TQ2_0: basic.tq2_0,
    TensorType.MXFP4: basic.mxfp4,
    TensorType.NVFP4: basic.nvfp4,
    TensorType.IQ4_NL: iq.iq4_nl,
    TensorType.IQ4_XS: iq.iq4_xs,
}
DECODERS.update((type, partial(iq.by_codebook, type)) for type in iq.WITH_CODEBOOK)

#: Elements decoded at a time, so that temporaries stay small and in cache.
CHUNK_ELEMENTS = 1 << 18


def dequantize(data: Tensor, type: TensorType) -> Tensor:
    """Return the elements of `data` (uint8, any shape, whole blocks) as a new flat float32 tensor on its device."""
    flat = data.reshape(-1)
    elements, size = type.block
    if flat.numel() % size:
        raise CheckpointError(f"{flat.numel()} bytes are not a whole number of {type.name} blocks of {size} bytes")
    if type in TORCH_DTYPES:
        dtype = TORCH_DTYPES[type]
        aligned = flat if flat.storage_offset() % dtype.itemsize == 0 else flat.clone()
        return aligned.view(dtype).to(torch.float32, copy=True)
    decoder = DECODERS.get(type)
    if decoder is None:
        raise UnsupportedError(f"tensors of type {type.name} cannot be decoded to floats")
    blocks = flat.view(-1, size)
    step = max(1, CHUNK_ELEMENTS // elements)
    out = torch.empty(len(blocks), elements, dtype=torch.float32, device=data.device)
    for start in range(0, len(blocks), step):
        out[start : start + step] = decoder(blocks[start : start + step])
    return out.view(-1)
