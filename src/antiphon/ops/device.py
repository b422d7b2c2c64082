"""`Device`: the device that a model computes on, its backend and its compute type."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import device as TorchDevice
from torch import dtype as DataType
from torch.cuda import Stream

from antiphon.device_names import AUTO, CPU, check_device_name
from antiphon.errors import DeviceError, OutOfDeviceMemoryError, UnsupportedError
from antiphon.ops import triton
from antiphon.ops.backend import Backend
from antiphon.ops.registry import active_backend, default_backend

#: Lowest CUDA compute capability that the kernels run on: Ampere.
MIN_CAPABILITY = (8, 0)
#: Types of activations by name; the residual stream and logits have 32 bits on every device.
COMPUTE_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

#: Texts of CUDA errors that mean too little memory.
FULL = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory", "Triton Error [CUDA]: out of memory")
#: Texts of CUDA errors after which the context is lost, unless FULL has a text of the error too.
LOST = ("CUDA error", "Triton Error [CUDA]")


@dataclass(frozen=True)
class DeviceLimits:
    """Name, memory and, for CUDA, compute capability of the hardware."""

    hardware: str
    total_bytes: int
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Device:
    """Open device of a model slot. Every tensor of the slot's model is on `torch`.

    Activations, except the residual stream, have `compute_type`; a model may prefer a type other than the default.
    """

    torch: TorchDevice
    backend: Backend
    compute_type: DataType
    limits: DeviceLimits
    has_default_type: bool = False

    @classmethod
    def parse(cls, name: str = AUTO, compute_type: str | None = None) -> Device:
        """Open a device by name. `auto` is the first GPU if our kernels run on it, else the CPU.

        `compute_type` is one of `COMPUTE_TYPES`; the default is fp32 on the CPU and bf16 elsewhere. Raise
        `UnsupportedError` with the reason if the device cannot be used.
        """
        kind, _, number = check_device_name(name).partition(":")
        if kind == AUTO:
            kind = "cuda" if default_backend("cuda").name != "reference" and cuda_obstacle(0) is None else CPU
        return OPENERS[kind](int(number or 0), None if compute_type is None else COMPUTE_TYPES[compute_type])

    @property
    def name(self) -> str:
        """Name of the device: `cpu`, `cuda:0` and so on."""
        return str(self.torch)

    @property
    def is_cpu(self) -> bool:
        return self.torch.type == CPU

    @property
    def stream(self) -> Stream | None:
        """CUDA stream that all steps on the device run on, shared by all models; None on the CPU."""
        return _stream(self.torch) if self.torch.type == "cuda" else None

    def preferring(self, dtype: DataType | None) -> Device:
        """Return the device with a model's preferred type, unless `dtype` is missing or the user chose a type."""
        return self if dtype is None or not self.has_default_type else replace(self, compute_type=dtype)

    def free_bytes(self) -> int:
        """Return the bytes that are free on the device now; on the CPU, all bytes of the machine's memory."""
        return torch.cuda.mem_get_info(self.torch)[0] if self.torch.type == "cuda" else self.limits.total_bytes

    def translate(self, error: Exception) -> Exception:
        """Translate an error of PyTorch on this device into an AntiphonError; return other errors unchanged.

        After a `DeviceError` this process can compute nothing on the device: CUDA's context is lost.
        """
        is_cuda, text = self.torch.type == "cuda", str(error)
        is_full = is_cuda and any(words in text for words in FULL) and isinstance(error, RuntimeError)
        if is_full or isinstance(error, torch.OutOfMemoryError):
            free, total = self.free_bytes() >> 20, self.limits.total_bytes >> 20
            return OutOfDeviceMemoryError(f"{self.name} ran out of memory: {free:,} of {total:,} MiB are free")
        if is_cuda and (isinstance(error, torch.AcceleratorError) or any(words in text for words in LOST)):
            cause = text.partition("\n")[0]
            return DeviceError(f"{self.name} ({self.limits.hardware}) failed: {cause}; start the process again")
        return error


@cache
def _stream(device: TorchDevice) -> Stream:
    return Stream(device)


def cuda_obstacle(index: int) -> str | None:
    """Return why a CUDA device cannot be used, and what to do; None if it can be used."""
    if torch.version.cuda is None:
        build = f"PyTorch {torch.__version__} was built without CUDA"
        return f"{build}: install a CUDA build of PyTorch, or use the device cpu"
    count = torch.cuda.device_count()
    if not count or not torch.cuda.is_available():
        return (
            "PyTorch finds no NVIDIA GPU or no driver that works: `nvidia-smi` should list the GPU; install the driver "
            "(in a container, also give it access to the GPU), or use the device cpu"
        )
    if index >= count:
        names = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        return f"there is no device cuda:{index}: this machine has {names}"
    major, minor = torch.cuda.get_device_capability(index)
    if (major, minor) < MIN_CAPABILITY:
        wanted = ".".join(map(str, MIN_CAPABILITY))
        return (
            f"cuda:{index} ({torch.cuda.get_device_name(index)}) has compute capability {major}.{minor}; {wanted} or "
            "later is needed: use a newer GPU or the device cpu"
        )
    return None


def _open_cpu(_: int, compute_type: torch.dtype | None) -> Device:
    if compute_type not in (None, torch.float32):
        raise UnsupportedError("the CPU computes in fp32; give no other compute type")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = DeviceLimits("CPU", total)
    return Device(torch.device(CPU), active_backend(CPU), torch.float32, limits)


def _open_cuda(index: int, compute_type: torch.dtype | None) -> Device:
    obstacle = cuda_obstacle(index)
    if obstacle is not None:
        raise UnsupportedError(obstacle)
    if triton.available():
        from antiphon.ops.triton.kernel_cache import use_kernel_cache

        use_kernel_cache()
    torch.backends.cudnn.allow_tf32 = False  # TF32 has 10 bits of mantissa: a model that computes in fp32 needs all 23
    found = torch.cuda.get_device_properties(index)
    limits = DeviceLimits(found.name, found.total_memory, (found.major, found.minor))
    device, dtype = torch.device("cuda", index), compute_type or torch.bfloat16
    return Device(device, active_backend("cuda"), dtype, limits, has_default_type=compute_type is None)


#: Functions that open a device by its index and compute type, by kind of device. A new kind is one line here.
OPENERS: dict[str, Callable[[int, torch.dtype | None], Device]] = {CPU: _open_cpu, "cuda": _open_cuda}
