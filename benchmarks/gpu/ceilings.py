"""Measured limits of a device: memory bandwidth and matrix products."""

from __future__ import annotations

import torch

from antiphon.ops.native.program.limits import MOST_READ_BYTES, measure_limits
from antiphon.ops.program.profile import MachineLimits
from antiphon.ops.triton.program.limits import measure_card


def measure_ceilings(device: torch.device) -> MachineLimits:
    """Measure a GPU with PyTorch, the CPU as a profile does."""
    return measure_limits(MOST_READ_BYTES) if device.type == "cpu" else measure_card(device)
