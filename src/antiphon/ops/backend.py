"""Which implementation of the operations runs: chosen by device, or by name inside a `use_backend` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops import native, reference
from antiphon.ops.types import WeightForm

OPERATIONS = (
    "embed",
    "linear",
    "rms_norm",
    "layer_norm",
    "rotary",
    "store_kv",
    "paged_attention",
    "paged_attention_weights",
    "attention",
    "conv1d",
    "prepare_convolution",
    "conv_transpose1d",
    "half_conv1d",
    "half_conv_transpose1d",
    "lstm",
    "sample",
    "activate",
    "add",
    "gather_rows",
    "segment_mean",
    "l2_normalize",
    "mask_frames",
    "leaky_relu",
    "modulate",
    "adaptive_norm",
    "concatenate",
    "repeat_frames",
    "prepend_mirrored",
    "pad_rows",
    "pack_rows",
    "expand_frames",
    "frame_counts",
    "harmonic_source",
    "harmonic_spectrum",
    "inverse_spectrum",
    "log_pitch",
    "pulse_noise_vocoder",
)


class Backend:
    """One callable per operation; what a backend lacks, the reference does."""

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self.prepare_weights: Callable[..., list[WeightForm]] = module.prepare_weights
        self.half_type: Callable[[], torch.dtype | None] = module.half_type
        self.operations: dict[str, Callable[..., Any]] = {
            operation: getattr(module, operation, getattr(reference, operation)) for operation in OPERATIONS
        }


_forced: ContextVar[Backend | None] = ContextVar("antiphon_backend", default=None)


@cache
def get_backend(name: str) -> Backend:
    """A backend by name. Asking for one that this machine cannot run is an error that says why."""
    if name == "reference":
        return Backend(name, reference)
    if name == "native":
        if not native.available():
            raise UnsupportedError("the native backend was not built on this machine (no C++ compiler at install time)")
        return Backend(name, native)
    raise UnsupportedError(f"unknown backend {name!r}; there are: {', '.join(available_backends())}")


def available_backends() -> list[str]:
    return ["reference", "native"] if native.available() else ["reference"]


@cache
def _default(device_type: str) -> Backend:
    return get_backend("native" if device_type == "cpu" and native.available() else "reference")


def active_backend(device_type: str = "cpu") -> Backend:
    """The backend that operations on this kind of device go to now."""
    return _forced.get() or _default(device_type)


@contextmanager
def use_operations(backend: Backend) -> Iterator[Backend]:
    """Run the operations of this block (and of this thread or task only) on this backend."""
    token = _forced.set(backend)
    try:
        yield backend
    finally:
        _forced.reset(token)


def use_backend(name: str) -> AbstractContextManager[Backend]:
    """Run the operations of this block (and of this thread or task only) on the named backend."""
    return use_operations(get_backend(name))


def dispatch(operation: str, tensor: Tensor) -> Callable[..., Any]:
    return (_forced.get() or _default("cpu" if tensor.is_cpu else tensor.device.type)).operations[operation]
