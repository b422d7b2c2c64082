"""Arrays of a step brought to a device: pinned and without a wait on CUDA, not copied on the CPU where they may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from antiphon.executor.upload import upload, upload_constant, upload_numbers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_on_the_cpu_only_what_may_change_is_copied() -> None:
    array = np.arange(4)
    copied, shared = upload(array, CPU), upload_constant(array, CPU)
    array[0] = 9
    assert copied.tolist() == [0, 1, 2, 3] and shared.data_ptr() == array.ctypes.data
    numbers = upload_numbers([3, 1], CPU)
    assert numbers.tolist() == [3, 1] and numbers.dtype is torch.int64 and upload_numbers([], CPU).shape == (0,)


def test_nothing_waits_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only pinned memory is copied without a wait."""
    pinned: list[torch.Tensor] = []
    copies: list[tuple[bool, Any, bool]] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor.clone())
        return pinned[-1]

    def to(tensor: torch.Tensor, device: torch.device, non_blocking: bool = False) -> torch.Tensor:
        copies.append((any(tensor is one for one in pinned), device, non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", to)
    for tensor in (upload(np.arange(2), CUDA), upload_constant(np.arange(2), CUDA), upload_numbers([0, 1], CUDA)):
        assert tensor.tolist() == [0, 1]
    assert copies == [(True, CUDA, True)] * 3
