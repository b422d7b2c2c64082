"""`Machine`: the device of an analysis, which is open or a GPU that is not in this machine."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from antiphon.device_names import CPU
from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Model
from antiphon.ops import Device
from antiphon.ops.device import cuda_obstacle
from antiphon.ops.program.profile import MachineLimits
from antiphon.processor import processor_name
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_sizes import DeviceSizes, gpu_sizes
from antiphon.runtime.loading.loading import device_for
from antiphon.runtime.loading.machine_limits import GivenLimits, card_limits, processor_limits
from antiphon.runtime.loading.weight_forms import GPU_BACKEND

CUDA = "cuda"
#: Compute type of a GPU if neither the model nor the caller prefers another.
GPU_TYPE = torch.bfloat16


@dataclass(frozen=True)
class Machine:
    """Machine of an analysis. A GPU elsewhere, with known limits only, has no `device`."""

    name: str
    hardware: str
    backend: str
    compute_type: torch.dtype
    sizes: DeviceSizes
    device: Device | None

    @property
    def is_cpu(self) -> bool:
        return self.device is not None and self.device.is_cpu

    def limits(self, given: GivenLimits, weight_bytes: int) -> MachineLimits:
        """Return the given limits, completed by measurements over as many bytes as a step reads."""
        if self.device is None:
            known = given.known()
            assert known is not None  # checked by `open_machine`
            return known
        return processor_limits(given, weight_bytes) if self.is_cpu else card_limits(given, self.device)


def open_machine(config: EngineConfig, given: GivenLimits, name: str, model: Model) -> Machine:
    """Open the configured device as the model would use it; a GPU with given limits may be missing."""
    kind, _, number = config.device.partition(":")
    if kind == CUDA:
        obstacle = cuda_obstacle(int(number or 0))
        if obstacle is not None and given.known() is not None:
            dtype = model.preferred_type or GPU_TYPE
            return Machine(
                config.device, "not on this machine", GPU_BACKEND, dtype, config.configured(gpu_sizes(dtype)), None
            )
        if obstacle is not None:
            raise UnsupportedError(f"{obstacle}. For a GPU that is not here, give --limits GB/S,GMAC/S")
    device = device_for(name, model.task, config.open_device(), may_move=True).preferring(model.preferred_type)
    hardware = processor_name() if device.torch.type == CPU else device.limits.hardware
    return Machine(device.name, hardware, device.backend.name, device.compute_type, config.sizes(device), device)
