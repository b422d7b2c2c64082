"""The quantised form that a weight has on the GPU, if it has one."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.quantised.forms import BLOCK
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix, can_prepare
from antiphon.ops.triton.quantised.quantising import quantise
from antiphon.ops.triton.quantised.repacking import repack
from antiphon.ops.triton.quantised.row_scaled import RowScaledMatrix
from antiphon.weights.types import TORCH_DTYPES, TensorType
from antiphon.weights.weight import Weight, WeightPart

#: A weight that stays quantised on the GPU; both have `product`, `take`, `expanded`, `rows`, `columns`,
#: `device` and `nbytes`.
PreparedWeight = QuantisedMatrix | RowScaledMatrix


def prepare_quantised(
    weight: Weight, device: torch.device | str, target: TensorType | None = None
) -> PreparedWeight | None:
    """What the weight becomes on the device; None: it is to be decoded to floats.

    `target` is the type that float weights are quantised to: Q8_0, Q4_1 or F8_E4M3. Rows that are no whole number of
    blocks, and weights with parts that are floats beside quantised ones, become floats.
    """
    if can_prepare(weight):
        return QuantisedMatrix.of(weight, device)
    if target is None or not all(part.type in TORCH_DTYPES for part in weight.parts):
        return None
    if target is TensorType.F8_E4M3:
        return RowScaledMatrix.of(torch.cat([_floats(part, device) for part in weight.parts]))
    if weight.columns % BLOCK:
        return None
    encoded = torch.cat([quantise(_floats(part, device), target) for part in weight.parts])
    return QuantisedMatrix((repack(encoded, target, weight.columns),), weight.columns)


def _floats(part: WeightPart, device: torch.device | str) -> Tensor:
    return part.data.to(device).view(TORCH_DTYPES[part.type])
