"""`EngineConfig`: how an engine is set up. Every size is in the unit its name says."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from antiphon.engine.policies.policy import Policy
from antiphon.engine.policies.registry import DEFAULT_TPOT_TARGET, make_policy
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.errors import InvalidRequestError
from antiphon.runtime.loading.weight_forms import WeightOptions

PAGE_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8}

MIN_SLAB_BYTES = 1 << 20
MAX_SLAB_BYTES = 32 << 20
SLABS_WANTED = 256


@dataclass(frozen=True)
class EngineConfig:
    """The settings of an engine. A wrong value raises `InvalidRequestError` with the value.

    - `kv_bytes` is the memory for keys and values of all models; `key_type` and `value_type` are `fp32`, `fp16`,
      `bf16` or `int8`.
    - `policy` is `fcfs`, `priority` or `adaptive`. At most `max_running` requests are computed together and
      `max_waiting` wait; more raise `OverloadedError`.
    - A step computes at most `max_step_tokens`, of one prompt at most `chunk_tokens`, and takes about `step_seconds`
      at most.
    - `preemption` is `recompute` or `swap` (to `swap_bytes` of memory), for requests that must make room.
    - `sink_tokens` with `recent_tokens` limits attention to the first and the last tokens, and frees the blocks
      between.
    - `quantize` is `int8`, `q4` or (on a GPU) `fp8`, for files with floats. `repack` lays quantised weights out for
      this processor. `precision` is `fast` or `fp32`, for speech models.
    - `record` runs each step as one compiled native program; the results are the same.
    - `batch_invariant` makes an answer independent of other requests in every bit.
    - `record_requests` adds to the trace which requests were in each step.
    """

    kv_bytes: int = 1 << 30
    key_type: str = "fp16"
    value_type: str = "fp16"
    block_tokens: int = 16
    prefix_caching: bool = True
    sink_tokens: int = 0
    recent_tokens: int | None = None
    policy: str = "fcfs"
    ageing_seconds: float | None = 10.0
    tpot_target: float = DEFAULT_TPOT_TARGET
    ttft_target: float | None = None
    max_running: int = 64
    max_waiting: int = 1024
    max_step_tokens: int = 2048
    chunk_tokens: int | None = 512
    step_seconds: float | None = None
    preemption: str = "recompute"
    swap_bytes: int = 1 << 30
    max_model_tokens: int | None = None
    batch_invariant: bool = False
    slab_bytes: int | None = None
    record_requests: bool = False
    record: bool = True
    repack: bool = True
    quantize: str | None = None
    precision: str = "fast"

    def __post_init__(self) -> None:
        for name in ("key_type", "value_type"):
            if getattr(self, name) not in PAGE_TYPES:
                choices = ", ".join(PAGE_TYPES)
                raise InvalidRequestError(f"{name} is {getattr(self, name)!r}; it must be one of: {choices}")
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

    def make_policy(self) -> Policy:
        return make_policy(
            self.policy,
            ageing_seconds=self.ageing_seconds,
            tpot_target=self.tpot_target,
            ttft_target=self.ttft_target,
        )

    def scheduler(self) -> SchedulerConfig:
        return SchedulerConfig(
            max_running=self.max_running,
            max_waiting=self.max_waiting,
            max_step_tokens=self.max_step_tokens,
            chunk_tokens=self.chunk_tokens,
            step_seconds=self.step_seconds,
            preemption=Preemption(self.preemption),
            swap_bytes=self.swap_bytes,
        )

    def weight_options(self) -> WeightOptions:
        """How the engine loads models that it is given by name."""
        return WeightOptions(self.repack, self.quantize, self.precision)

    def slab_size(self) -> int:
        """Bytes of a slab: many slabs, so that models share the arena finely, but not smaller than is sensible."""
        if self.slab_bytes is not None:
            return self.slab_bytes
        wanted = self.kv_bytes // SLABS_WANTED // 256 * 256
        return max(min(MIN_SLAB_BYTES, self.kv_bytes // 4 // 256 * 256), min(MAX_SLAB_BYTES, wanted), 256)
