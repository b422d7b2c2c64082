"""Memory for the values of a step: once a value's last reader is lowered, later values reuse its memory."""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

ALIGNMENT = 256


class StepWorkspace:
    """Allocator of ranges in one array of bytes; without an array, it only counts the bytes that a step needs."""

    def __init__(self, memory: Tensor | None) -> None:
        self._memory = memory
        self._free: dict[int, list[int]] = defaultdict(list)
        self._ranges: dict[int, tuple[int, int]] = {}
        self.used = 0

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        size = -(-max(math.prod(shape) * dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
        start = self._reserve(size)
        if self._memory is None:
            tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
        else:
            if start + size > self._memory.numel():
                raise ValueError(f"a step needs {start + size} bytes of workspace, not {self._memory.numel()}")
            flat = self._memory[start : start + math.prod(shape) * dtype.itemsize]
            tensor = flat.view(dtype).view(tuple(shape))
        self._ranges[id(tensor)] = (start, size)
        return tensor

    def give_back(self, tensor: Tensor) -> None:
        """Free a tensor that no later launch reads."""
        self._release(*self._ranges.pop(id(tensor)))

    def _reserve(self, size: int) -> int:
        """Return the offset of `size` bytes: a released range of that size, otherwise the end."""
        if self._free[size]:
            return self._free[size].pop()
        start, self.used = self.used, self.used + size
        return start

    def _release(self, start: int, size: int) -> None:
        self._free[size].append(start)


class CompactWorkspace(StepWorkspace):
    """Workspace that joins and divides released ranges, for steps with large values of many sizes."""

    def __init__(self, memory: Tensor | None) -> None:
        super().__init__(memory)
        self._gaps: list[tuple[int, int]] = []  # begin and end of each gap, in order

    def _reserve(self, size: int) -> int:
        """Return an offset in the smallest gap with room, otherwise at the end, together with a gap before the end."""
        fitting = [(end - start, start, end) for start, end in self._gaps if end - start >= size]
        if fitting:
            _, start, end = min(fitting)
            self._gaps.remove((start, end))
            if start + size < end:
                insort(self._gaps, (start + size, end))
            return start
        start = self._gaps.pop()[0] if self._gaps and self._gaps[-1][1] == self.used else self.used
        self.used = start + size
        return start

    def _release(self, start: int, size: int) -> None:
        end = start + size
        for gap in [gap for gap in self._gaps if gap[1] == start or gap[0] == end]:
            self._gaps.remove(gap)
            start, end = min(start, gap[0]), max(end, gap[1])
        insort(self._gaps, (start, end))
