"""Weights decoded to float matrices: for each product, or once at load time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.types import WeightForm
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TYPE_OF_DTYPE, TensorType
from antiphon.weights.weight import Weight

DENSE_PACK = "reference.dense"


def dense(weight: Weight) -> Tensor:
    """Return a weight as one float matrix [rows, columns]: its packed matrix if there is one, else exact fp32."""
    packed = weight.packed.get(DENSE_PACK)
    if packed is not None:
        return packed
    parts = [dequantize(part.data, part.type).view(part.rows, weight.columns) for part in weight.parts]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def pack_dense(weight: Weight, device: torch.device | None = None, dtype: torch.dtype = torch.bfloat16) -> None:
    """Decode a weight to `dtype` and replace its parts, for machines without a native backend and other devices."""
    if DENSE_PACK not in weight.packed:
        weight.packed[DENSE_PACK] = dense(weight).to(dtype).to(device)
        weight.release_parts()


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> list[WeightForm]:
    """Decode every weight to `dtype`, on the device. Raise `UnsupportedError` if a weight is to be quantised."""
    forms = []
    for weight in weights:
        if quantize(weight) is not None:
            raise UnsupportedError("weights are quantised by the native backend, which was not built on this machine")
        parts = weight.parts
        pack_dense(weight, device, dtype)
        for part in parts:
            size = part.rows * weight.columns * dtype.itemsize
            forms.append(WeightForm(part.type, part.data.numel(), size, quantized=TYPE_OF_DTYPE[dtype]))
    release_pages()
    return forms
