"""Arrays of a step brought to the device."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def upload(array: NDArray[Any], device: torch.device) -> Tensor:
    """A copy on the device, which nothing waits for: the array may be changed at once."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.clone()
    return tensor.pin_memory().to(device, non_blocking=True)
