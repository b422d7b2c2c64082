"""Arrays of a step brought to the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def upload(array: NDArray[Any], device: torch.device) -> Tensor:
    """A copy on the device, which nothing waits for: the array may be changed at once."""
    tensor = upload_constant(array, device)
    return tensor.clone() if device.type == "cpu" else tensor


def upload_constant(array: NDArray[Any], device: torch.device) -> Tensor:
    """The same for an array that is never changed afterwards: on the CPU it is not copied."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def upload_numbers(numbers: Sequence[int], device: torch.device) -> Tensor:
    """int64 [N] on the device, which nothing waits for."""
    return upload_constant(np.array(numbers, dtype=np.int64), device)
