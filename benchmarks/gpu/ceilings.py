"""What a device can do at best, measured with PyTorch's own operations: reading memory, and products in bf16."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from antiphon.ops.program.profile import MachineLimits

#: More than any cache holds.
READ_BYTES = {"cuda": 4 << 30, "cpu": 256 << 20}
SIDE = {"cuda": 8192, "cpu": 256}
WARM_UP, REPEATS = 3, 10


def measure_ceilings(device: torch.device) -> MachineLimits:
    """The best of several repetitions of each."""
    num_bytes, side = READ_BYTES[device.type], SIDE[device.type]
    values = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
    readings = [_best(device, reduce) for reduce in (values.sum, values.amax)]
    del values
    left, right = (torch.randn(side, side, device=device).to(torch.bfloat16) for _ in range(2))
    multiplying = _best(device, lambda: left @ right)
    return MachineLimits(num_bytes / min(readings), side**3 / multiplying, 0.0)


def _best(device: torch.device, function: Callable[[], object]) -> float:
    """Seconds of the fastest call."""
    for _ in range(WARM_UP):
        function()
    return min(_cuda_seconds(function) if device.type == "cuda" else _seconds(function) for _ in range(REPEATS))


def _cuda_seconds(function: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def _seconds(function: Callable[[], object]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun
