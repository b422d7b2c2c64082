"""Size of the KV cache in a device's memory."""

from __future__ import annotations

from antiphon.errors import MemoryBudgetError
from antiphon.models.base.model import Model
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_sizes import DeviceSizes
from antiphon.weights.weight import Weight

#: Share of a device's memory that is left for the driver, kernels, graphs and other programs, and its minimum.
RESERVE_SHARE = 0.05
MIN_RESERVE_BYTES = 1 << 29
#: Bytes of an activation, and of an element of a quantised weight that is expanded for many rows.
NUM_BYTES = 2
#: Minimum bytes for keys and values that are of any use.
MIN_KV_BYTES = 16 << 20


def workspace_bytes(model: Model, sizes: DeviceSizes) -> int:
    """Estimate the bytes that a step of the model needs beside weights and pages.

    They are activations, logits in 32 bits, twice, and the largest quantised weight, expanded.
    """
    decoder = model.part(TokenDecoder)
    num_logits = 0 if decoder is None else decoder.vocab_size
    weights = [weight for weight in model.weights() if weight.rows != num_logits]
    widest_output = max((weight.rows for weight in weights), default=0)
    widest_input = max((weight.columns for weight in weights), default=0)
    # The widest product of a layer, its input and its residual, and what it is computed from or into.
    activations = sizes.max_step_tokens * (2 * widest_output + widest_input) * NUM_BYTES
    quantised = (weight.rows * weight.columns for weight in weights if weight.resident_bytes < _float_bytes(weight))
    return activations + sizes.max_running * num_logits * 4 * 2 + max(quantised, default=0) * NUM_BYTES


def _float_bytes(weight: Weight) -> int:
    return weight.rows * weight.columns * NUM_BYTES


def reserve_bytes(device: Device) -> int:
    return max(MIN_RESERVE_BYTES, int(device.limits.total_bytes * RESERVE_SHARE))


def kv_bytes_for(device: Device, config: EngineConfig, workspace: int, coming: int) -> int:
    """Return the configured bytes; by default the free bytes without workspace, reserve and `coming` weights.

    The weights of the model that needs the cache are on the device already. `MemoryBudgetError` has the numbers.
    """
    if config.kv_bytes is not None:
        return config.kv_bytes
    free, reserve = device.free_bytes(), reserve_bytes(device)
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
