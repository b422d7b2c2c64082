"""`EngineConfig`: settings of an engine. Every size is in the unit that its name states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import torch

from antiphon.argument_types import check_fields
from antiphon.device_names import AUTO, check_device_name
from antiphon.engine.policies.policy import Policy
from antiphon.engine.policies.registry import DEFAULT_TPOT_TARGET, make_policy
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError, check_values
from antiphon.ops.device import COMPUTE_TYPES, Device
from antiphon.runtime.loading.device_sizes import DeviceSizes, default_sizes
from antiphon.runtime.loading.memory_budget import DEFAULT_KV_BYTES
from antiphon.runtime.loading.weight_forms import WeightOptions

PAGE_TYPES = {
    "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8,
    "fp8": torch.float8_e4m3fn,
}  # fmt: skip

#: Fields that are sizes or durations.
POSITIVE = ("kv_bytes", "cpu_kv_bytes", "max_model_tokens", "slab_bytes", "step_seconds", "ageing_seconds")

MIN_SLAB_BYTES, SMALL_SLAB_BYTES, MAX_SLAB_BYTES = 1 << 20, 4 << 20, 32 << 20
#: Slabs of SMALL_SLAB_BYTES that an arena must hold to have no smaller slabs: blocks of large models have megabytes.
SLABS_OF_SMALL = 32
MIN_SLABS, SLABS_WANTED = 4, 256


@dataclass(frozen=True)
class EngineConfig:
    """Settings of an engine. A wrong value raises `InvalidRequestError` with the value.

    - `device` is `auto`, `cpu`, `cuda` or `cuda:N`, for models that name no other; `auto` is the first usable GPU,
      else the CPU. Voice activity and letter-to-sound are always on the CPU. `compute_type` is the type of
      activations: `fp32` on the CPU; `bf16`, `fp16` or `fp32` on a GPU, by default `fp16` for embeddings, scores and
      transcription and `bf16` for text generation.
    - `kv_bytes` is the memory for keys and values of all models of a device; `key_type` and `value_type` are `fp32`,
      `fp16`, `bf16`, `int8` or, on GPUs, `fp8` (e4m3).
    - Sizes of None depend on the device. CPU: `cpu_kv_bytes` in `fp16`, 64 running, 2,048 tokens a step. GPU: most of
      its free memory in the compute type, 256 running, 8,192 tokens a step.
    - `policy` is `fcfs`, `priority` or `adaptive`. At most `max_running` requests are computed together and
      `max_waiting` wait; more raise `OverloadedError`.
    - A step computes at most `max_step_tokens` tokens, at most `chunk_tokens` of one prompt, and takes about
      `step_seconds` at most.
    - `expected_weights` are models, by name, with the bytes of their weights: a GPU's cache leaves room for models
      that are not loaded yet.
    - `preemption` of requests that must make room is `recompute`, or `swap` to `swap_bytes` of host memory.
    - `sink_tokens` with `recent_tokens` limits attention to the first and the last tokens, and frees the blocks
      between.
    - `quantize` is `int8`, `q4` or (on a GPU) `fp8`, for files with floats. `repack` lays quantised weights out for
      this processor. `precision` is `fast` or `fp32`, for speech models.
    - `record` runs each step as one compiled native program; the results are the same.
    - `batch_invariant` makes an answer independent of other requests in every bit; on a GPU for text generation only,
      where it is slower.
    - `speculate` is `off`, `ngram` or the name of a draft model. Tokens that followed the same tokens earlier, or that
      a smaller model with the same vocabulary drafts, are verified several at a time, where that is faster. The
      answer is the same. Requests may choose their own setting.
    - `record_requests` adds the requests of each step to the trace.
    """

    device: str = AUTO
    compute_type: str | None = None
    kv_bytes: int | None = None
    cpu_kv_bytes: int = DEFAULT_KV_BYTES
    key_type: str | None = None
    value_type: str | None = None
    block_tokens: int = 16
    prefix_caching: bool = True
    sink_tokens: int = 0
    recent_tokens: int | None = None
    policy: str = "fcfs"
    ageing_seconds: float | None = 10.0
    tpot_target: float = DEFAULT_TPOT_TARGET
    ttft_target: float | None = None
    max_running: int | None = None
    max_waiting: int = 1024
    max_step_tokens: int | None = None
    chunk_tokens: int | None = 512
    step_seconds: float | None = None
    preemption: str = "recompute"
    swap_bytes: int = 1 << 30
    max_model_tokens: int | None = None
    batch_invariant: bool = False
    slab_bytes: int | None = None
    expected_weights: Mapping[str, int] = field(default_factory=dict)
    record_requests: bool = False
    record: bool = True
    repack: bool = True
    quantize: str | None = None
    precision: str = "fast"
    speculate: str = Speculation.OFF

    def __post_init__(self) -> None:
        check_fields(self)
        for name in POSITIVE:
            value = getattr(self, name)
            check_values((value is None or value > 0, name, value, "above 0"))
        check_device_name(self.device)
        types = {"key_type": PAGE_TYPES, "value_type": PAGE_TYPES, "compute_type": COMPUTE_TYPES}
        for name, known in types.items():
            given = getattr(self, name)
            if given is not None and given not in known:
                raise InvalidRequestError(f"{name} is {given!r}; it must be one of: {', '.join(known)}")
        if self.preemption not in list(Preemption):
            raise InvalidRequestError(f"preemption is {self.preemption!r}; it must be one of: {', '.join(Preemption)}")
        if self.block_tokens < 1 or self.block_tokens & (self.block_tokens - 1):
            raise InvalidRequestError(f"block_tokens is {self.block_tokens}; it must be a power of two")
        if self.recent_tokens is not None and self.recent_tokens < 1:
            raise InvalidRequestError(f"recent_tokens is {self.recent_tokens}; it must be 1 or more")
        if self.sink_tokens < 0 or (self.sink_tokens and self.recent_tokens is None):
            raise InvalidRequestError(
                f"sink_tokens is {self.sink_tokens}; it goes with recent_tokens and is not negative"
            )
        self.make_policy()
        self.scheduler()
        self.weight_options()

    @property
    def speculation(self) -> Speculation:
        """Source of drafts unless a request states another."""
        return Speculation.of_engine(self.speculate)

    def make_policy(self) -> Policy:
        return make_policy(
            self.policy,
            ageing_seconds=self.ageing_seconds,
            tpot_target=self.tpot_target,
            ttft_target=self.ttft_target,
        )

    def open_device(self, name: str | None = None) -> Device:
        """Open a device by name, by default the engine's own; on a GPU with the configured compute type."""
        device = Device.parse(name or self.device)
        if self.compute_type is None or device.is_cpu:
            return device
        return Device.parse(device.name, self.compute_type)

    def sizes(self, device: Device | None = None) -> DeviceSizes:
        """Return the configured sizes, completed by the device's defaults; without a device, the CPU's."""
        return self.configured(default_sizes(device))

    def configured(self, defaults: DeviceSizes) -> DeviceSizes:
        """Return the configured sizes, completed by these defaults."""
        given = {field.name: getattr(self, field.name) for field in fields(DeviceSizes)}
        return replace(defaults, **{name: value for name, value in given.items() if value is not None})

    def scheduler(self, sizes: DeviceSizes | None = None) -> SchedulerConfig:
        """Return the scheduler's settings with these sizes; by default the sizes of the CPU."""
        sizes = sizes or self.sizes()
        return SchedulerConfig(
            max_running=sizes.max_running,
            max_waiting=self.max_waiting,
            max_step_tokens=sizes.max_step_tokens,
            chunk_tokens=self.chunk_tokens,
            step_seconds=self.step_seconds,
            preemption=Preemption(self.preemption),
            swap_bytes=self.swap_bytes,
        )

    def weight_options(self) -> WeightOptions:
        return WeightOptions(self.repack, self.quantize, self.precision)

    def slab_size(self, kv_bytes: int, block_bytes: int = 0) -> int:
        """Return the bytes of a slab of an arena: many slabs, so that models share it finely, but none too small.

        With `block_bytes`, a slab has whole blocks of that size, and at least one.
        """
        if self.slab_bytes is not None:
            return self.slab_bytes
        smallest = max(min(MIN_SLAB_BYTES, kv_bytes // MIN_SLABS), min(SMALL_SLAB_BYTES, kv_bytes // SLABS_OF_SMALL))
        size = max(smallest // 256 * 256, min(MAX_SLAB_BYTES, kv_bytes // SLABS_WANTED // 256 * 256), 256)
        block = -(-block_bytes // 256) * 256
        if not block or block > kv_bytes // MIN_SLABS:
            return size
        return max(size // block, 1) * block
