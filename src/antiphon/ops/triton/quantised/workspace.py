"""Memory that quantised products share: one buffer for expanded weights."""

from __future__ import annotations

import torch
from torch import Tensor


class ProductWorkspace:
    """Buffer of one device and one stream, which grows when a product needs more than all before.

    CUDA graphs hold the buffer's address, so an outgrown buffer is kept; to avoid that, `reserve` the largest size
    first.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._scratch = torch.empty(0, dtype=torch.uint8, device=device)
        self._outgrown: list[Tensor] = []

    def reserve(self, scratch_bytes: int) -> None:
        """Grow the buffer to at least this many bytes of expanded weights."""
        if self._scratch.numel() < scratch_bytes:
            self._outgrown.append(self._scratch)
            self._scratch = torch.empty(scratch_bytes, dtype=torch.uint8, device=self._scratch.device)

    def scratch(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        """Return an uninitialised matrix [rows, columns]; every call returns the same memory."""
        size = rows * columns * dtype.itemsize
        self.reserve(size)
        return self._scratch[:size].view(dtype).view(rows, columns)


_workspaces: dict[tuple[torch.device, int], ProductWorkspace] = {}
#: Bytes of the largest weight of each device, expanded to 16 bits.
_largest: dict[torch.device, int] = {}


def expect_weight(device: torch.device, rows: int, columns: int) -> None:
    """Record a quantised weight of the device, so that workspaces have room for the weight from their first use."""
    _largest[device] = max(_largest.get(device, 0), rows * columns * 2)


def _stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def drop_workspace(device: torch.device) -> None:
    """Free the workspace of the device's current stream, which must have finished."""
    _workspaces.pop((device, _stream(device)), None)


def workspace_of(device: torch.device) -> ProductWorkspace:
    """Return the workspace of the device's current stream."""
    stream = _stream(device)
    found = _workspaces.get((device, stream))
    if found is None:
        found = _workspaces[device, stream] = ProductWorkspace(device)
    found.reserve(_largest.get(device, 0))
    return found
