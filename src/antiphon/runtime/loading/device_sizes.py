"""`DeviceSizes`: batch sizes of a device, and the types of its pages."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from antiphon.ops.device import COMPUTE_TYPES, Device


@dataclass(frozen=True)
class DeviceSizes:
    """Requests that are computed together, tokens of a step, and page types."""

    max_running: int
    max_step_tokens: int
    key_type: str
    value_type: str


CPU_SIZES = DeviceSizes(max_running=64, max_step_tokens=2048, key_type="fp16", value_type="fp16")


def default_sizes(device: Device | None = None) -> DeviceSizes:
    """Return sizes that suit a device, by default the CPU. Other devices keep pages in their compute type."""
    if device is None or device.is_cpu:
        return CPU_SIZES
    return gpu_sizes(device.compute_type)


def gpu_sizes(compute_type: torch.dtype) -> DeviceSizes:
    page_type = next(name for name, dtype in COMPUTE_TYPES.items() if dtype is compute_type)
    return DeviceSizes(max_running=256, max_step_tokens=8192, key_type=page_type, value_type=page_type)
