"""How much of a device's memory keys and values get."""

from __future__ import annotations

from antiphon.errors import MemoryBudgetError
from antiphon.models.base.model import Model
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_sizes import DeviceSizes

#: Of the whole memory, left for the driver, kernels, graphs and other programs.
RESERVE_SHARE = 0.05
MIN_RESERVE_BYTES = 1 << 29
#: Activations of one token in a step: residual, projections and the two halves of a gated layer of a 8B model.
TOKEN_BYTES = 112 << 10
#: Less than this for keys and values is of no use.
MIN_KV_BYTES = 16 << 20


def workspace_bytes(model: Model, sizes: DeviceSizes) -> int:
    """About what a step of the model needs beside weights and pages: activations, and logits in 32 bits, twice."""
    decoder = model.part(TokenDecoder)
    logits = 0 if decoder is None else sizes.max_running * decoder.vocab_size * 4 * 2
    return sizes.max_step_tokens * TOKEN_BYTES + logits


def reserve_bytes(device: Device) -> int:
    return max(MIN_RESERVE_BYTES, int(device.limits.total_bytes * RESERVE_SHARE))


def kv_bytes_for(device: Device, config: EngineConfig, workspace: int) -> int:
    """The configured bytes, else what is free now less the workspace, the reserve and weights still to come.

    The weights of the model that asks are on the device already. `MemoryBudgetError` has the numbers.
    """
    if config.kv_bytes is not None:
        return config.kv_bytes
    free, reserve, coming = device.free_bytes(), reserve_bytes(device), config.coming_weight_bytes
    left = free - workspace - reserve - coming
    if left < MIN_KV_BYTES:
        beside = f", {coming >> 20:,} MiB for weights of other models" if coming else ""
        raise MemoryBudgetError(
            f"{device.name} ({device.limits.hardware}) has {free >> 20:,} MiB free of "
            f"{device.limits.total_bytes >> 20:,} MiB; of that {workspace >> 20:,} MiB are needed for a step and "
            f"{reserve >> 20:,} MiB kept in reserve{beside}: nothing is left for the KV cache. Use a smaller model, "
            "lower max_step_tokens or max_running, or free memory on the device"
        )
    return left
