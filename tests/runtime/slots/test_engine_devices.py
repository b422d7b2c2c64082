"""The memory of an engine's devices: arenas, defaults, and what is reported where there is not enough."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from antiphon import ops
from antiphon.errors import CheckpointError, MemoryBudgetError, OutOfDeviceMemoryError, UnsupportedError
from antiphon.models.base.model import Task
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device, active_backend
from antiphon.ops.backend import Backend, use_operations
from antiphon.ops.device import DeviceLimits
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_memory import reserve_bytes, workspace_bytes
from antiphon.runtime.loading.loading import LoadedModel, device_for, load_model, with_room
from antiphon.runtime.slots.decoder import cache_layouts
from antiphon.runtime.slots.devices import EngineDevice, EngineDevices
from antiphon.runtime.slots.resident import check_batch_invariance
from antiphon.weights.catalog.resolve import resolve
from support.models.tiny_model import write_bert

TOTAL = 16 << 30


@dataclass(frozen=True, eq=False)
class FakeGPU(Device):
    """Without memory of its own, and with a figure of what is free."""

    free: list[int] = field(default_factory=lambda: [TOTAL])

    def free_bytes(self) -> int:
        return self.free[-1]


def fake_gpu() -> FakeGPU:
    return FakeGPU(torch.device("meta"), active_backend("meta"), torch.bfloat16, DeviceLimits("Fake GPU", TOTAL))


@pytest.fixture
def loaded(tiny_llama: Path) -> LoadedModel:
    return load_model(str(tiny_llama), device="cpu")


def test_sizes_of_a_step_depend_on_the_device() -> None:
    config, gpu = EngineConfig(), fake_gpu()
    assert (config.sizes().max_running, config.sizes().max_step_tokens, config.sizes().key_type) == (64, 2048, "fp16")
    sizes = config.sizes(gpu)
    assert (sizes.max_running, sizes.max_step_tokens, sizes.key_type, sizes.value_type) == (256, 8192, "bf16", "bf16")
    given = EngineConfig(max_running=3, max_step_tokens=100, key_type="int8").sizes(gpu)
    assert (given.max_running, given.max_step_tokens, given.key_type, given.value_type) == (3, 100, "int8", "bf16")


@pytest.mark.parametrize("kv_bytes", [1 << 20, 16 << 20, 1 << 28, 1 << 30, 100 << 30])
def test_slabs_hold_whole_blocks(kv_bytes: int) -> None:
    config = EngineConfig()
    assert config.slab_size(kv_bytes) * 4 <= kv_bytes
    for block in (256, 1_835_008, 5_242_880):
        size = config.slab_size(kv_bytes, block)
        if block * 4 <= kv_bytes:
            assert size % block == 0 and block <= size <= max(config.slab_size(kv_bytes), block)
        else:
            assert size < block


def test_a_large_block_fits_a_small_cache(loaded: LoadedModel) -> None:
    config = EngineConfig(kv_bytes=1 << 28, block_tokens=1 << 16)
    arena = EngineDevice(fake_gpu(), config).acquire("a", loaded.model)
    decoder = loaded.model.part(TokenDecoder)
    assert decoder is not None
    largest = max(
        layout.block_bytes for layout in cache_layouts(decoder.cache_groups, config, config.sizes(fake_gpu()))
    )
    assert arena.books.slab_bytes % largest == 0 and largest > EngineConfig().slab_size(1 << 28)


def test_the_cache_takes_what_models_leave(loaded: LoadedModel, tmp_path: Path) -> None:
    gpu, config = fake_gpu(), EngineConfig(expected_weights={"a": 5 << 30, "b": 1 << 30, "c": 2 << 30})
    device = EngineDevice(gpu, config)
    assert device.books is None and device.budget_bytes == TOTAL - reserve_bytes(gpu)
    gpu.free.append(TOTAL - (3 << 30))  # the weights
    encoder = load_model(str(write_bert(tmp_path)), device="cpu").model
    assert device.acquire("c", encoder).books.total_bytes == 0
    arena = device.acquire("a", loaded.model)
    left = gpu.free_bytes() - workspace_bytes(loaded.model, config.sizes(gpu)) - reserve_bytes(gpu) - (1 << 30)
    assert 0 <= left - arena.books.total_bytes < arena.books.slab_bytes
    assert arena.memory.device.type == "meta" and device.figures()["total_bytes"] == arena.books.total_bytes
    assert device.acquire("b", loaded.model) is arena
    for name in ("a", "c"):
        device.release(name)
        assert device.books is arena.books
    device.release("b")
    assert device.books is None


def test_the_cache_has_the_size_that_is_configured(loaded: LoadedModel) -> None:
    device = EngineDevice(fake_gpu(), EngineConfig(kv_bytes=64 << 20))
    assert device.acquire("a", loaded.model).books.total_bytes == 64 << 20


def test_too_little_memory_is_reported_with_the_numbers(loaded: LoadedModel) -> None:
    gpu = fake_gpu()
    device = EngineDevice(gpu, EngineConfig())
    gpu.free.append(820 << 20)
    expected = r"has 820 MiB free of 16,384 MiB; of that 8 MiB are needed for a step and 819 MiB kept in reserve"
    with pytest.raises(MemoryBudgetError, match=expected):
        device.acquire("a", loaded.model)
    assert device.books is None


def test_a_model_without_a_cache_reserves_none(loaded: LoadedModel, tmp_path: Path) -> None:
    device = EngineDevice(fake_gpu(), EngineConfig(kv_bytes=1 << 20))
    encoder = load_model(str(write_bert(tmp_path)), device="cpu").model
    assert device.acquire("a", encoder).books.total_bytes == 0 and device.books is None
    assert (
        device.acquire("b", loaded.model).books.total_bytes == device.acquire("c", encoder).books.total_bytes == 1 << 20
    )
    for name in ("a", "b", "c"):
        assert device.books is not None
        device.release(name)
    assert device.books is None


def test_a_refused_arena_is_reported_with_the_numbers(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int, place: torch.device) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("antiphon.ops.allocate_arena", refuse)
    with pytest.raises(MemoryBudgetError, match="meta refused 64 MiB for keys and values; 16,384 MiB are free"):
        EngineDevice(fake_gpu(), EngineConfig(kv_bytes=64 << 20)).acquire("a", loaded.model)


def test_devices_are_opened_once() -> None:
    devices = EngineDevices(EngineConfig(device="cpu", kv_bytes=1 << 20))
    assert devices.get("cpu") is devices.default is devices.get(None)
    other = devices.of(fake_gpu())
    assert [device.name for device in devices] == ["cpu", "meta"] and devices.of(fake_gpu()) is other


def test_weights_that_do_not_fit_are_reported_with_the_numbers(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("antiphon.ops.prepare_weights", refuse)
    expected = r"meta \(Fake GPU\) has 16,384 MiB free of 16,384 MiB; tiny-llama has \d+ MiB of weights"
    with pytest.raises(OutOfDeviceMemoryError, match=expected):
        load_model(str(tiny_llama), device=fake_gpu())


def test_an_encoder_on_a_gpu_computes_in_fp16_by_default(tmp_path: Path) -> None:
    encoder, gpu = str(write_bert(tmp_path)), fake_gpu()
    assert load_model(encoder, device=gpu).device.compute_type is torch.bfloat16  # as it was asked for
    loaded = load_model(encoder, device=replace(gpu, has_default_type=True))
    assert loaded.device.compute_type is torch.float16 and loaded.device.name == gpu.name
    assert all(leaf.device.type == "meta" for leaf in loaded.model.leaves() if isinstance(leaf, torch.Tensor))


def test_detectors_alone_stay_on_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    gpu = fake_gpu()
    for task in Task:
        if task not in (Task.VOICE_ACTIVITY, Task.END_OF_TURN, Task.PHONEMIZE):
            assert device_for("model", task, gpu, may_move=False) is gpu
    with pytest.raises(UnsupportedError, match=r"a voice activity detector, which runs on the CPU .* not meta"):
        device_for("ears", Task.VOICE_ACTIVITY, gpu, may_move=False)
    with caplog.at_level("INFO"):
        assert device_for("ears", Task.VOICE_ACTIVITY, gpu, may_move=True).is_cpu
    assert "ears computes on the CPU, not on meta" in caplog.text


def test_auto_is_the_cpu_where_a_gpu_has_no_room(tiny_llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    gpu, resolved = fake_gpu(), resolve(str(tiny_llama))
    assert with_room(gpu, resolved) is gpu
    gpu.free.append(820 << 20)
    assert with_room(gpu, resolved).is_cpu
    assert "computes on the CPU: it has 0 MiB of weights, and meta (Fake GPU) has 820 MiB free of 16,384" in caplog.text


def test_in_batch_invariant_mode_text_generation_alone_is_on_a_gpu() -> None:
    gpu = fake_gpu()
    assert device_for("chat", Task.GENERATE, gpu, may_move=True, batch_invariant=True) is gpu
    assert device_for("voice", Task.SYNTHESIZE, gpu, may_move=True, batch_invariant=True).is_cpu
    with pytest.raises(UnsupportedError, match=r"voice is a speech .*for text generation only: use the device cpu"):
        device_for("voice", Task.SYNTHESIZE, gpu, may_move=False, batch_invariant=True)


def test_batch_invariance_needs_kernels_that_have_it() -> None:
    with pytest.raises(UnsupportedError, match="needs the Triton kernels on meta, and the package triton is missing"):
        check_batch_invariance(fake_gpu())
    with ops.use_backend("reference"), pytest.raises(UnsupportedError, match="needs the native kernels"):
        check_batch_invariance(Device.parse("cpu"))
    with pytest.raises(UnsupportedError, match="the backend reference has no batch-invariant mode"):
        ops.invariant_backend("reference")


def test_on_a_gpu_batch_invariance_is_for_text_generation(tmp_path: Path, loaded: LoadedModel) -> None:
    encoder = load_model(str(write_bert(tmp_path)))
    with use_operations(Backend("triton", ())):
        check_batch_invariance(fake_gpu(), loaded)
        with pytest.raises(UnsupportedError, match="an embedding model; on meta batch-invariant mode is for text"):
            check_batch_invariance(fake_gpu(), encoder)


def test_slots_that_do_not_fit_are_reported_with_the_numbers(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("antiphon.runtime.frontend.front_end.make_slots", refuse)
    with (
        Engine(device="cpu", kv_bytes=1 << 20) as engine,
        pytest.raises(OutOfDeviceMemoryError, match="meta ran out of memory: 16,384 of 16,384 MiB are free"),
    ):
        engine.load(replace(loaded, device=fake_gpu()))


class Held:
    """Memory of a load."""


def test_a_failed_load_holds_nothing_while_memory_is_given_back(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[weakref.ref[Held]] = []
    alive: list[bool] = []

    def fail(*_: object, **__: object) -> LoadedModel:
        weights = Held()
        held.append(weakref.ref(weights))
        raise CheckpointError("a bad file")

    monkeypatch.setattr("antiphon.runtime.frontend.front_end.load_model", fail)
    monkeypatch.setattr(EngineDevice, "trim", lambda device: alive.append(held[0]() is not None))
    with Engine(device="cpu", kv_bytes=1 << 20) as engine:
        with pytest.raises(CheckpointError, match="a bad file"):
            engine.load(str(tiny_llama))
        assert alive == [False]


@pytest.mark.long("all garbage of a process with everything imported is collected")
def test_an_unloaded_model_is_gone_when_memory_is_given_back(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[bool] = []
    with Engine(device="cpu", kv_bytes=1 << 20) as engine:
        name = engine.load(str(tiny_llama)).name
        model = weakref.ref(engine._factories[name].loaded.model)

        def trim(device: EngineDevice) -> None:
            gc.collect()
            alive.append(model() is not None)

        monkeypatch.setattr(EngineDevice, "trim", trim)
        engine.unload(name)
        assert alive == [False]
