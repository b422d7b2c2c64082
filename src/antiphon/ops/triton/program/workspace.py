"""Memory for the values of a step: a value whose last reader has been emitted leaves its place to later ones."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

ALIGNMENT = 256


class Workspace:
    """Places in one array of bytes. Without an array it only counts what a step would need."""

    def __init__(self, memory: Tensor | None) -> None:
        self._memory = memory
        self._free: dict[int, list[int]] = defaultdict(list)
        self._places: dict[int, tuple[int, int]] = {}
        self.used = 0

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        size = -(-max(math.prod(shape) * dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
        if self._free[size]:
            start = self._free[size].pop()
        else:
            start, self.used = self.used, self.used + size
        if self._memory is None:
            tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
        else:
            if start + size > self._memory.numel():
                raise ValueError(f"a step needs {start + size} bytes of workspace, not {self._memory.numel()}")
            flat = self._memory[start : start + math.prod(shape) * dtype.itemsize]
            tensor = flat.view(dtype).view(tuple(shape))
        self._places[id(tensor)] = (start, size)
        return tensor

    def give_back(self, tensor: Tensor) -> None:
        """The tensor is read by nothing that follows."""
        start, size = self._places.pop(id(tensor))
        self._free[size].append(start)
