"""The engine behind a channel, in this process."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.ops import Device
from antiphon.runtime.process.messages import Devices
from antiphon.runtime.process.served_engine import ServedEngine


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
