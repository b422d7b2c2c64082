"""Devices by name, and why one cannot be used."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from antiphon.errors import DeviceError, InvalidRequestError, OutOfDeviceMemoryError, UnsupportedError
from antiphon.ops import Device, active_backend
from antiphon.ops.backend import Backend
from antiphon.ops.device import DeviceLimits
from antiphon.ops.registry import defaults


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine with GPUs as PyTorch would describe it; tests change what is wrong with it."""
    found = SimpleNamespace(count=2, capability=(9, 0), works=True)
    properties = SimpleNamespace(name="Test GPU", total_memory=8 << 30, multi_processor_count=4, major=9, minor=0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name, answer in {
        "is_available": lambda: found.works,
        "device_count": lambda: found.count,
        "get_device_capability": lambda index: found.capability,
        "get_device_name": lambda index: "Test GPU",
        "get_device_properties": lambda index: properties,
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    return found


def test_the_cpu() -> None:
    device = Device.parse("cpu")
    assert (device.name, device.is_cpu, device.compute_type, device.stream) == ("cpu", True, torch.float32, None)
    assert device.free_bytes() > 0
    with pytest.raises(UnsupportedError, match="the CPU computes in fp32"):
        Device.parse("cpu", "bf16")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "auto:1", ""])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="it must be auto, cpu, cuda or cuda:N"):
        Device.parse(name)


@pytest.mark.usefixtures("card")
def test_gpus_by_number() -> None:
    first, second = Device.parse("cuda"), Device.parse("cuda:1", "fp16")
    assert (first.name, first.compute_type, first.limits.capability) == ("cuda:0", torch.bfloat16, (9, 0))
    assert (second.name, second.compute_type, second.limits.total_bytes) == ("cuda:1", torch.float16, 8 << 30)
    with pytest.raises(UnsupportedError, match="no device cuda:2: this machine has cuda:0 to cuda:1"):
        Device.parse("cuda:2")


def test_why_a_gpu_cannot_be_used(card: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    card.count = 1
    with pytest.raises(UnsupportedError, match="no device cuda:1: this machine has only cuda:0"):
        Device.parse("cuda:1")
    card.capability = (7, 5)
    with pytest.raises(UnsupportedError, match=r"Test GPU\) has compute capability 7\.5; 8\.0 or later is needed"):
        Device.parse("cuda")
    card.works = False
    with pytest.raises(UnsupportedError, match="`nvidia-smi` should list the GPU"):
        Device.parse("cuda")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(UnsupportedError, match="was built without CUDA: install a CUDA build of PyTorch"):
        Device.parse("cuda")


def test_auto_takes_a_gpu_that_our_kernels_run_on(card: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(defaults, "cuda", Backend("reference", ()))
    assert Device.parse("auto").is_cpu
    monkeypatch.setitem(defaults, "cuda", Backend("kernels", ()))
    assert Device.parse("auto").name == "cuda:0"
    card.capability = (7, 0)
    assert Device.parse("auto").is_cpu


@pytest.mark.usefixtures("card")
def test_errors_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 << 20, 8 << 30))
    gpu, cpu = Device.parse("cuda:1"), Device.parse("cpu")
    full = gpu.translate(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    assert isinstance(full, OutOfDeviceMemoryError) and "cuda:1 ran out of memory: 3 of 8,192 MiB" in str(full)
    for error in (torch.AcceleratorError("an illegal memory access\nmore"), RuntimeError("CUDA error: misaligned")):
        lost = gpu.translate(error)
        assert isinstance(lost, DeviceError) and "cuda:1 (Test GPU) failed" in str(lost) and "more" not in str(lost)
        assert cpu.translate(error) is error
    wrong = ValueError("a shape")
    assert gpu.translate(wrong) is wrong


@pytest.mark.usefixtures("card")
def test_errors_of_libraries_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 << 20, 8 << 30))
    gpu, cpu = Device.parse("cuda:1"), Device.parse("cpu")
    cublas = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    for error in (cublas, RuntimeError("Triton Error [CUDA]: out of memory")):
        assert isinstance(gpu.translate(error), OutOfDeviceMemoryError) and cpu.translate(error) is error
    triton = RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")
    assert isinstance(gpu.translate(triton), DeviceError) and cpu.translate(triton) is triton


def test_a_model_may_prefer_a_type_where_none_was_asked_for() -> None:
    limits = DeviceLimits("none", 0)
    given = Device(torch.device("meta"), active_backend("meta"), torch.bfloat16, limits)
    default = replace(given, has_default_type=True)
    assert default.preferring(torch.float16).compute_type is torch.float16
    assert default.preferring(None).compute_type is given.preferring(torch.float16).compute_type is torch.bfloat16
