"""Bytes that a weight will take on a GPU; the calculation needs neither a GPU nor Triton."""

from __future__ import annotations

from itertools import groupby

import torch

from antiphon.ops.triton.quantised.forms import BLOCK, FORMS
from antiphon.ops.triton.quantised.repacking import repacked_bytes
from antiphon.weights.types import TORCH_DTYPES, TensorType
from antiphon.weights.weight import Weight


def planned_bytes(weight: Weight, target: TensorType | None, dtype: torch.dtype) -> int:
    """Return the bytes that `prepare_weights` makes of a weight: floats become `target`, decoded weights `dtype`."""
    rows, columns = weight.shape
    if all(part.type in FORMS for part in weight.parts):
        runs = groupby(weight.parts, lambda part: part.type)
        return sum(repacked_bytes(type, sum(part.rows for part in run), columns) for type, run in runs)
    if target is not None and all(part.type in TORCH_DTYPES for part in weight.parts):
        if target is TensorType.F8_E4M3:
            return rows * (columns + 4)  # and one fp32 scale per row
        if columns % BLOCK == 0:
            return repacked_bytes(TensorType.Q8_0 if target is TensorType.I8 else target, rows, columns)
    return rows * columns * dtype.itemsize
