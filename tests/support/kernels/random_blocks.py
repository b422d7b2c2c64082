"""Quantised weights with random blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

#: Byte offset and number of the f16 factors in a block, by type.
FACTORS = {
    TensorType.Q4_0: (0, 1), TensorType.Q4_1: (0, 2), TensorType.Q5_0: (0, 1), TensorType.Q5_1: (0, 2),
    TensorType.Q8_0: (0, 1), TensorType.Q4_K: (0, 2), TensorType.Q5_K: (0, 2), TensorType.Q6_K: (208, 1),
}  # fmt: skip


def random_part(type: TensorType, rows: int, columns: int, generator: torch.Generator) -> WeightPart:
    """Return random quantised rows, with factors of a sensible size."""
    data = torch.randint(0, 256, (rows, type.row_bytes(columns)), dtype=torch.uint8, generator=generator)
    blocks = data.view(rows, -1, type.block.size)
    first, count = FACTORS[type]
    factors = (torch.rand(*blocks.shape[:2], count, generator=generator) * 2 - 1) * 0.01
    blocks[:, :, first : first + 2 * count] = factors.half().view(torch.uint8).view(*blocks.shape[:2], 2 * count)
    return WeightPart(type, rows, data)


def decoded(weight: Weight) -> Tensor:
    return torch.cat([dequantize(part.data, part.type).view(part.rows, -1) for part in weight.parts]).double()
