"""The engine behind a channel, in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

from antiphon.ops import Device
from antiphon.runtime.frontend import front_end
from antiphon.runtime.loading import loading
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.process.messages import Devices, Loaded, LoadModel, Unloaded, UnloadModel
from antiphon.runtime.process.served_engine import ServedEngine
from support.waiting import wait_until


def test_a_server_on_the_cpu_opens_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, opened = Device.parse, []

    def broken(name: str = "auto", *rest: Any) -> Device:
        opened.append(name)
        if name != "cpu":
            raise RuntimeError("the driver is broken")
        return parse(name, *rest)

    monkeypatch.setattr(Device, "parse", broken)
    sent: list[msgspec.Struct] = []
    ServedEngine(sent.append, {"device": "cpu", "kv_bytes": 1 << 20}).close()
    assert set(opened) == {"cpu"}
    assert [(message.default, message.auto) for message in sent if isinstance(message, Devices)] == [("cpu", "cpu")]


def test_a_stuck_load_keeps_no_other_from_loading_or_unloading(
    monkeypatch: pytest.MonkeyPatch, tiny_llama: Path
) -> None:
    """A load that was cancelled gives its name free; what it loads later is dropped."""
    blocked, release, load_model = threading.Event(), threading.Event(), loading.load_model

    def load(reference: str, **options: Any) -> LoadedModel:
        if reference == "stuck":
            blocked.set()
            assert release.wait(120)
        return load_model(str(tiny_llama), **options)

    monkeypatch.setattr(front_end, "load_model", load)
    sent: SimpleQueue[msgspec.Struct] = SimpleQueue()

    def answer() -> msgspec.Struct:
        while isinstance(message := sent.get(timeout=120), Devices):
            pass
        return message

    engine = ServedEngine(sent.put, {"device": "cpu", "kv_bytes": 1 << 20})
    try:
        engine.take(LoadModel("a", "stuck", True))
        assert blocked.wait(120)
        for name in "bcdef":
            engine.take(LoadModel(name, "fine", True))
            assert isinstance(loaded := answer(), Loaded) and loaded.name == name
        engine.take(UnloadModel("b"))
        assert answer() == Unloaded("b")
        engine.take(LoadModel("a", "again", True))
        assert "is being loaded already" in str(answer())
        engine.take(UnloadModel("a"))
        assert answer() == Unloaded("a")
        engine.take(LoadModel("a", "fine", True))
        assert isinstance(loaded := answer(), Loaded) and loaded.name == "a"
        release.set()
        wait_until(lambda: not engine._loads._num_threads, "the cancelled load to end")
        assert sent.empty() and set(engine._factories) == set("acdef")
    finally:
        release.set()
        engine.close()
