"""Budgets of several devices: each holds its own models, and makes room among them alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.errors import MemoryBudgetError, MemoryBusyError
from antiphon.runtime.process.messages import DeviceMemory, Devices
from antiphon.runtime.residency.residency import Residency
from antiphon.runtime.residency.resident import ModelState, Resident
from support.engine.books import Books, empty_books


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Books:
    made = empty_books(monkeypatch, tmp_path)
    gpu = DeviceMemory("cuda:0", "Test GPU", 9000, 5000, 1500)
    made.devices.take(Devices([DeviceMemory("cpu", "CPU", 9000, 8000, 1000), gpu], "cuda:0", "cuda:0"))
    return made


def test_each_device_has_a_budget(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 3000)  # type: ignore[arg-type]
        own = residency.add(Resident("own", "own:2000"))
        named = residency.add(Resident("named", "named:1400", device="cuda"))
        beside = residency.add(Resident("beside", "beside:1900", device="cpu"))
        detector = residency.add(Resident("detector", "detector:50", is_companion=True))
        for model in (own, named, beside):
            await residency.load(model)
        assert [model.charged_device for model in (own, named, beside)] == ["cuda:0", "cuda:0", "cpu"]
        assert residency.device_of(detector) == "cpu"
        cpu, gpu = residency.budgets()
        assert (cpu.device, cpu.room, residency.charged_bytes("cpu")) == ("cpu", 2000, 1900)
        assert (gpu.device, gpu.room, residency.charged_bytes("cuda:0")) == ("cuda:0", 3500, 3400)
        await residency.load(residency.add(Resident("next", "next:1500")))
        assert own.state is ModelState.UNLOADED  # the least recently used of the GPU, not of the CPU
        assert (named.state, beside.state) == (ModelState.READY, ModelState.READY)
        named.is_pinned = True
        with pytest.raises(MemoryBusyError, match="600 of the memory budget of cuda:0 of 5,000 bytes are free"):
            await residency.load(own, evict=False)
        with pytest.raises(MemoryBudgetError, match="the memory budget of cuda:0 is 5,000 bytes"):
            await residency.load(residency.add(Resident("huge", "huge:3600")))
        far = residency.add(Resident("far", "far:99999", device="cuda:1"))
        await residency.load(far)  # nothing is known of that one: the engine says whether it fits
        assert residency.budget("cuda:1") is None and far.loaded is not None and far.loaded.device == "cuda:1"

    asyncio.run(main())


def test_the_cpu_keeps_no_cache_while_it_is_not_used(books: Books) -> None:
    books.devices.take(Devices([DeviceMemory("cuda:0", "Test GPU", 9000, 5000, 0)], "cuda:0", "cuda:0"))
    cpu, _ = Residency(books, 3000).budgets()  # type: ignore[arg-type]
    assert (cpu.device, cpu.room) == ("cpu", 3000)


def test_models_for_every_task_are_expected_on_a_gpu(books: Books) -> None:
    residency = Residency(books, 3000)  # type: ignore[arg-type]
    for device, expected in ((None, "cuda:0"), ("auto", "cuda:0"), ("cuda", "cuda:0"), ("cpu", "cpu")):
        assert residency.device_of(Resident("ears", "whisper-base.en", device=device)) == expected
    assert residency.device_of(Resident("chat", "smollm2-135m")) == "cuda:0"
