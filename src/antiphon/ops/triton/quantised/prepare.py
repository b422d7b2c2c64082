"""Choice of a weight's quantised form on the GPU."""

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

#: Weight that stays quantised on the GPU; both classes have `product`, `take`, `expanded`, `rows`, `columns`, `device`
#: and `nbytes`.
PreparedWeight = QuantisedMatrix | RowScaledMatrix


def prepare_quantised(
    weight: Weight, device: torch.device | str, target: TensorType | None = None
) -> PreparedWeight | None:
    """Return the weight's quantised form on the device, or None if the weight must be decoded to floats.

    `target` is the type to which float weights are quantised: Q8_0, Q4_1 or F8_E4M3; None keeps floats. Weights with
    both float and quantised parts become floats, and so do weights whose rows are not whole blocks, unless `target` is
    F8_E4M3.
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
