"""`Transfer`: several tensors of 32-bit values brought to the host in one copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Transfer:
    """Tensors are added on their device; after `fetch` the arrays are read by the numbers that `add` returned."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._arrays: list[NDArray[Any]] = []

    def add(self, tensor: Tensor) -> int:
        """Take a float32 or integer tensor; integers are brought over as int32."""
        narrow = tensor if tensor.dtype is torch.float32 else tensor.to(torch.int32)
        self._tensors.append(narrow)
        return len(self._tensors) - 1

    def fetch(self) -> None:
        """Copy everything that was added."""
        flat = [tensor.contiguous().view(torch.int32).view(-1) for tensor in self._tensors]
        words = (flat[0] if len(flat) == 1 else torch.cat(flat)).cpu().numpy() if flat else np.zeros(0, dtype=np.int32)
        begin = 0
        for tensor in self._tensors:
            own = words[begin : begin + tensor.numel()].reshape(tuple(tensor.shape))
            self._arrays.append(own.view(np.float32) if tensor.dtype is torch.float32 else own)
            begin += tensor.numel()

    def __getitem__(self, number: int) -> NDArray[Any]:
        return self._arrays[number]
