"""Memory that quantised products share: sums of splits, and one buffer for expanded weights."""

from __future__ import annotations

import torch
from torch import Tensor


class ProductWorkspace:
    """Buffers of one device and one stream, grown when a product needs more than any before it.

    Graphs hold the buffers' addresses, so that a buffer that was outgrown is kept; `reserve` with the largest sizes
    spares that.
    """

    def __init__(self, device: torch.device | str, multiprocessors: int | None = None) -> None:
        self.device = torch.device(device)
        if multiprocessors is None:
            on_cuda = self.device.type == "cuda"
            multiprocessors = torch.cuda.get_device_properties(self.device).multi_processor_count if on_cuda else 1
        self.multiprocessors = multiprocessors
        #: Whether the card multiplies matrices in e4m3.
        self.multiplies_fp8 = self.device.type == "cuda" and torch.cuda.get_device_capability(self.device) >= (8, 9)
        self._partial = torch.empty(0, dtype=torch.float32, device=self.device)
        self._counters = torch.zeros(0, dtype=torch.int32, device=self.device)
        self._scratch = torch.empty(0, dtype=torch.uint8, device=self.device)
        self._outgrown: list[Tensor] = []

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in (self._partial, self._counters, self._scratch, *self._outgrown))

    def reserve(self, sums: int = 0, counters: int = 0, scratch_bytes: int = 0) -> None:
        """Have room for so many fp32 sums, counters and bytes of expanded weights."""
        if self._partial.numel() < sums:
            self._keep(self._partial)
            self._partial = torch.empty(sums, dtype=torch.float32, device=self.device)
        if self._counters.numel() < counters:
            self._keep(self._counters)
            self._counters = torch.zeros(counters, dtype=torch.int32, device=self.device)
        if self._scratch.numel() < scratch_bytes:
            self._keep(self._scratch)
            self._scratch = torch.empty(scratch_bytes, dtype=torch.uint8, device=self.device)

    def _keep(self, buffer: Tensor) -> None:
        if buffer.numel():
            self._outgrown.append(buffer)

    def splits(self, splits: int, sums: int, programs: int) -> tuple[Tensor, Tensor]:
        """Sums (fp32, `sums` for each split) and counters (zero between products) of a product with splits."""
        self.reserve(sums=splits * sums if splits > 1 else 1, counters=programs)
        return self._partial, self._counters

    def scratch(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        """An uninitialised matrix [rows, columns]; every call returns the same memory."""
        size = rows * columns * dtype.itemsize
        self.reserve(scratch_bytes=size)
        return self._scratch[:size].view(dtype).view(rows, columns)


_workspaces: dict[tuple[torch.device, int], ProductWorkspace] = {}
#: Bytes of the largest weight of each device, expanded to 16 bits.
_largest: dict[torch.device, int] = {}


def expect_weight(device: torch.device, rows: int, columns: int) -> None:
    """A quantised weight of this shape is on the device: its workspaces shall have room for it from the first use."""
    _largest[device] = max(_largest.get(device, 0), rows * columns * 2)


def _stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def drop_workspace(device: torch.device) -> None:
    """Free the workspace of the device's current stream; the stream has finished."""
    _workspaces.pop((device, _stream(device)), None)


def workspace_of(device: torch.device) -> ProductWorkspace:
    """The workspace of the device's current stream."""
    stream = _stream(device)
    found = _workspaces.get((device, stream))
    if found is None:
        found = _workspaces[device, stream] = ProductWorkspace(device)
    found.reserve(scratch_bytes=_largest.get(device, 0))
    return found
