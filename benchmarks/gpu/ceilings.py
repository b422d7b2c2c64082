"""What a device can do at best: reading memory, and products of matrices."""

from __future__ import annotations

from collections.abc import Callable

import torch

from antiphon.ops.native.program.limits import MOST_READ_BYTES, measure_limits
from antiphon.ops.program.profile import MachineLimits

#: More than any cache holds.
READ_BYTES = 4 << 30
SIDE = 8192
WARM_UP, REPEATS = 3, 10


def measure_ceilings(device: torch.device) -> MachineLimits:
    """On a card by PyTorch: reductions in fp32, and a product in bf16. On the CPU as a profile measures them."""
    if device.type == "cpu":
        return measure_limits(MOST_READ_BYTES)
    values = torch.ones(READ_BYTES // 4, dtype=torch.float32, device=device)
    reading = min(seconds(values.sum), seconds(values.amax))
    del values
    left, right = (torch.randn(SIDE, SIDE, device=device).to(torch.bfloat16) for _ in range(2))
    multiplying = seconds(lambda: left @ right)
    return MachineLimits(READ_BYTES / reading, SIDE**3 / multiplying, 0.0)


def seconds(function: Callable[[], object]) -> float:
    """Of the fastest call, by the card's clock."""
    for _ in range(WARM_UP):
        function()
    return min(_timed(function) for _ in range(REPEATS))


def _timed(function: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3
