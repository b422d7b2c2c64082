"""The backends: which there are, which this machine can run, and which one computes on a device."""

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
    """Where a backend's operations are, the devices that it is the default for, and whether it can run here.

    In batch-invariant mode those of `invariant` come before the others; None: it has no such mode.
    """

    name: str
    modules: tuple[object, ...]
    devices: tuple[str, ...] = ()
    available: Callable[[], bool] = lambda: True
    obstacle: str = ""  # why it is not available, where it is not
    invariant: tuple[object, ...] | None = None


#: One line for each backend. The reference computes wherever no other backend is the default.
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
    """A backend of its own that has computed nothing yet; errors are those of `get_backend`."""
    entry = next((entry for entry in BACKENDS if entry.name == name), None)
    if entry is None:
        raise UnsupportedError(f"unknown backend {name!r}; there are: {', '.join(available_backends())}")
    if not entry.available():
        raise UnsupportedError(entry.obstacle)
    return Backend(name, entry.modules)


@cache
def get_backend(name: str) -> Backend:
    """A backend by name. Asking for one that this machine cannot run is an error that says why."""
    return make_backend(name)


@cache
def invariant_backend(name: str) -> Backend:
    """The backend of that name in batch-invariant mode: a row's result depends on that row alone, in every bit."""
    entry = next((entry for entry in BACKENDS if entry.name == name), None)
    if entry is None or entry.invariant is None:
        raise UnsupportedError(f"the backend {name} has no batch-invariant mode")
    return Backend(name, (*entry.invariant, *entry.modules))


#: The default of each kind of device that operations have met.
defaults: dict[str, Backend] = {}


def default_backend(device_type: str) -> Backend:
    """The backend for this kind of device where no other is asked for; kept in `defaults`."""
    found = defaults.get(device_type)
    if found is None:
        suited = (entry.name for entry in BACKENDS if device_type in entry.devices and entry.available())
        found = defaults[device_type] = get_backend(next(suited, "reference"))
    return found


def active_backend(device_type: str = "cpu") -> Backend:
    """The backend that operations on this kind of device go to now."""
    return forced.get() or default_backend(device_type)


def use_backend(name: str) -> AbstractContextManager[Backend]:
    """Run the operations of this block (and of this thread or task only) on the named backend."""
    return use_operations(get_backend(name))


def stores_pages(dtype: torch.dtype, device_type: str = "cpu") -> bool:
    """Whether the active backend of such a device has pages of this type. The reference has all."""
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
    """Bring weights into the form the active backend of a device computes with, and report the form of each part.

    They are on the device afterwards, or where they were without one. `repack` allows a copy in another order;
    `quantize` names the type that a weight's floats become, if any; `release_pages` is called when the files' bytes
    that were read are no longer needed. `dtype` is what a device other than the CPU computes in: there weights that
    have no form of their own become matrices of it.
    """
    if device is None or device.type == "cpu":
        return active_backend().prepare_weights(weights, repack, quantize, release_pages)
    return active_backend(device.type).prepare_weights(weights, repack, quantize, release_pages, device, dtype)


def half_type(device_type: str = "cpu") -> torch.dtype | None:
    """The 16-bit type that `half_conv1d` and its like compute in there; None where they compute in 32 bits."""
    return active_backend(device_type).half_type()
