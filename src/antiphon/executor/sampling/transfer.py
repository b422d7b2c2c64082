"""`Transfer`: one copy of several tensors of 32-bit values to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Transfer:
    """Copy of tensors to the host: `add` the tensors, `start` the copy, `fetch` it.

    The arrays are then read by the numbers that `add` returned. From a GPU the copy runs after the kernels launched
    before it; only `wait` and `fetch` wait for it.
    """

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._arrays: list[NDArray[Any]] = []
        self._words = torch.zeros(0, dtype=torch.int32)
        self._arrived: torch.cuda.Event | None = None
        self._is_started = False

    def add(self, tensor: Tensor) -> int:
        """Add a float32 or integer tensor and return its number; integers are copied as int32."""
        narrow = tensor if tensor.dtype is torch.float32 else tensor.to(torch.int32)
        self._tensors.append(narrow)
        return len(self._tensors) - 1

    def start(self, stream: torch.cuda.Stream | None = None) -> None:
        """Start the copy of all tensors added. Without tensors, the transfer arrives when the stream gets here."""
        self._is_started = True
        flat = [tensor.contiguous().view(torch.int32).view(-1) for tensor in self._tensors]
        if not flat:
            if stream is not None:
                self._arrived = torch.cuda.Event(enable_timing=True)
                self._arrived.record(stream)
            return
        if not flat[0].is_cuda:
            self._words = torch.cat(flat)  # a copy: the next step may overwrite the tensor before it is fetched
            return
        words = flat[0] if len(flat) == 1 else torch.cat(flat)
        self._words = torch.empty(words.shape, dtype=torch.int32, pin_memory=True)
        self._words.copy_(words, non_blocking=True)
        self._arrived = torch.cuda.Event(enable_timing=True)
        self._arrived.record()

    @property
    def has_arrived(self) -> bool:
        """Whether `fetch` returns, or raises, without waiting. Faults of the device are raised there, not here."""
        try:
            return self._arrived is None or self._arrived.query()
        except Exception:
            return True

    def wait(self) -> None:
        if self._arrived is not None:
            self._arrived.synchronize()

    def seconds_since(self, begun: torch.cuda.Event) -> float:
        """Return the seconds from an event to the arrival, by the device's clock; 0 if nothing came from a GPU."""
        return 0.0 if self._arrived is None else begun.elapsed_time(self._arrived) * 1e-3

    def fetch(self) -> None:
        """Wait for the copy, which starts now if it has not started, and read it.

        The arrays are copies of the pinned memory, which another thread must not free while this thread captures a
        graph: torch would record an event of the stream in the graph, and fail when it queries the event later.
        """
        if not self._is_started:
            self.start()
        self.wait()
        words, begin = self._words.numpy(), 0
        if self._arrived is not None:
            words, self._words = words.copy(), torch.zeros(0, dtype=torch.int32)
        for tensor in self._tensors:
            own = words[begin : begin + tensor.numel()].reshape(tuple(tensor.shape))
            self._arrays.append(own.view(np.float32) if tensor.dtype is torch.float32 else own)
            begin += tensor.numel()

    def __getitem__(self, number: int) -> NDArray[Any]:
        return self._arrays[number]
