"""Weights decoded to floats, and to bf16 once where there is no faster form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.types import WeightForm
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

BF16_PACK = "reference.bf16"


def dense(weight: Weight) -> Tensor:
    """The weight as one float matrix [rows, columns]: bf16 where it was packed so, else decoded exactly to fp32."""
    packed = weight.packed.get(BF16_PACK)
    if packed is not None:
        return packed
    parts = [dequantize(part.data, part.type).view(part.rows, weight.columns) for part in weight.parts]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def pack_bf16(weight: Weight, device: torch.device | None = None) -> None:
    """Decode a weight to bf16 once, for machines without a native backend and for other devices."""
    if BF16_PACK not in weight.packed:
        weight.packed[BF16_PACK] = dense(weight).to(torch.bfloat16).to(device)
        weight.release_parts()


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
    device: torch.device | None = None,
) -> list[WeightForm]:
    """Decode every weight to bf16, on the device. Nothing is repacked; only the native backend quantises."""
    forms = []
    for weight in weights:
        if quantize(weight) is not None:
            raise UnsupportedError("weights are quantised by the native backend, which was not built on this machine")
        parts = weight.parts
        pack_bf16(weight, device)
        for part in parts:
            size = part.rows * weight.columns * 2
            forms.append(WeightForm(part.type, part.data.numel(), size, quantized=TensorType.BF16))
    release_pages()
    return forms
