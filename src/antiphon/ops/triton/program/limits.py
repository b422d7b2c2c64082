"""Measured limits of a GPU: memory bandwidth, and the rate of matrix products."""

from __future__ import annotations

from collections.abc import Callable

import torch

from antiphon.ops.program.profile import MachineLimits

#: Maximum bytes read to measure bandwidth; more than any cache holds.
READ_BYTES = 4 << 30
SIDE = 8192
WARM_UP, REPEATS = 3, 10


def measure_card(device: torch.device) -> MachineLimits:
    """Measure bandwidth by reductions in fp32, and the product rate in bf16; takes under a second."""
    read_bytes = min(READ_BYTES, torch.cuda.mem_get_info(device)[0] // 4)
    values = torch.ones(read_bytes // 4, dtype=torch.float32, device=device)
    reading = min(seconds(values.sum), seconds(values.amax))
    del values
    left, right = (torch.randn(SIDE, SIDE, device=device).to(torch.bfloat16) for _ in range(2))
    multiplying = seconds(lambda: left @ right)
    return MachineLimits(read_bytes / reading, SIDE**3 / multiplying, 0.0)


def seconds(function: Callable[[], object]) -> float:
    """Return the time of the fastest of `REPEATS` calls, in seconds of the GPU's clock."""
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
