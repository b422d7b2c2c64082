"""Registry of backends: all backends, those that this machine can run, and the active backend of a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import torch

from antiphon.errors import UnsupportedError
from antiphon.ops import native, reference, triton
from antiphon.ops.backend import Backend, forced, use_operations
from antiphon.ops.sound import native as native_sound
from antiphon.ops.types import WeightForm
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class BackendEntry:
    """Registration of a backend: its operations, the devices it is the default for, and whether it can run here.

    In batch-invariant mode the modules of `invariant` precede `modules`; None if the backend has no such mode.
    """

    name: str
    modules: tuple[object, ...]
    devices: tuple[str, ...] = ()
    available: Callable[[], bool] = lambda: True
    obstacle: str = ""  # reason to report if the backend is not available
    invariant: tuple[object, ...] | None = None


#: All backends, one line each. The reference computes on devices that no other available backend is the default for.
BACKENDS = (
    BackendEntry("reference", (reference.weights, reference.convolution)),
    BackendEntry(
        "triton", (triton.functions,), ("cuda",), triton.available, triton.OBSTACLE, (triton.invariant_functions,)
    ),
    BackendEntry(
        "native", (native, native_sound), ("cpu",), native.available,
        "the native backend was not built on this machine (no C++ compiler at install time)",
        (),
    ),
)  # fmt: skip


def available_backends() -> list[str]:
    return [entry.name for entry in BACKENDS if entry.available()]


def make_backend(name: str) -> Backend:
    """Make a new backend, not shared with other callers. Raise `UnsupportedError` if this machine cannot run it."""
    entry = next((entry for entry in BACKENDS if entry.name == name), None)
    if entry is None:
        raise UnsupportedError(f"unknown backend {name!r}; there are: {', '.join(available_backends())}")
    if not entry.available():
        raise UnsupportedError(entry.obstacle)
    return Backend(name, entry.modules)


@cache
def get_backend(name: str) -> Backend:
    """Return the shared backend `name`. Raise `UnsupportedError` with the reason if this machine cannot run it."""
    return make_backend(name)


@cache
def invariant_backend(name: str) -> Backend:
    """Return a backend in batch-invariant mode: a row's result depends on that row alone, in every bit."""
    entry = next((entry for entry in BACKENDS if entry.name == name), None)
    if entry is None or entry.invariant is None:
        raise UnsupportedError(f"the backend {name} has no batch-invariant mode")
    return Backend(name, (*entry.invariant, *entry.modules))


#: Default backend by device type, for the types used so far.
defaults: dict[str, Backend] = {}


def default_backend(device_type: str) -> Backend:
    """Return the default backend of a device type, and store it in `defaults`."""
    found = defaults.get(device_type)
    if found is None:
        suited = (entry.name for entry in BACKENDS if device_type in entry.devices and entry.available())
        found = defaults[device_type] = get_backend(next(suited, "reference"))
    return found


def active_backend(device_type: str = "cpu") -> Backend:
    """Return the backend that operations on a device type run on now, in the current thread or task."""
    return forced.get() or default_backend(device_type)


def use_backend(name: str) -> AbstractContextManager[Backend]:
    """Run the operations of a `with` block on the named backend, in the current thread or task only."""
    return use_operations(get_backend(name))


def stores_pages(dtype: torch.dtype, device_type: str = "cpu") -> bool:
    """Return whether the active backend of a device type has pages of a type. The reference has all types."""
    answer = active_backend(device_type).implementation("stores_pages")
    return answer is None or bool(answer(dtype))


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> list[WeightForm]:
    """Convert weights to the form that the active backend of a device computes with, and return each part's form.

    The weights are on `device` afterwards, or unmoved without a `device`. `repack` allows a copy in another order;
    `quantize` returns the type to quantise a weight's floats to, or None; `release_pages` is called when the bytes read
    from the files are no longer needed. `dtype` is the compute type of a device other than the CPU: weights without a
    form of their own become matrices of this type there.
    """
    if device is None or device.type == "cpu":
        return active_backend().prepare_weights(weights, repack, quantize, release_pages)
    return active_backend(device.type).prepare_weights(weights, repack, quantize, release_pages, device, dtype)


def half_type(device_type: str = "cpu") -> torch.dtype | None:
    """Return the 16-bit type that the `half_*` operations compute in on a device type; None if they use 32 bits."""
    return active_backend(device_type).half_type()
