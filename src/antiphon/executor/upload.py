"""Uploads of a step's arrays to the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def upload(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to the device without waiting. The caller may change the array at once."""
    tensor = upload_constant(array, device)
    return tensor.clone() if device.type == "cpu" else tensor


def upload_constant(array: NDArray[Any], device: torch.device) -> Tensor:
    """Upload an array that never changes, without waiting; on the CPU the tensor shares its memory."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def upload_numbers(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Upload numbers as int64 [N], without waiting."""
    return upload_constant(np.array(numbers, dtype=np.int64), device)
