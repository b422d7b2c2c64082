"""Where a server listens for Wyoming: nowhere unless asked, on loopback unless told otherwise."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from antiphon.errors import AntiphonError, InvalidRequestError, MissingDependencyError
from antiphon.server.apis.wyoming.discovery import SERVICE, Announcement
from antiphon.server.serving.setup.settings import ServerSettings
from antiphon.server.serving.setup.wyoming_plan import WyomingPlan


def plan(**flags: object) -> WyomingPlan | None:
    return WyomingPlan.of(ServerSettings.gather(flags))


def test_off_unless_a_port_is_given() -> None:
    assert plan() is None and plan(wyoming_host="0.0.0.0", host="0.0.0.0") is None


def test_on_loopback_unless_its_own_host_is_given() -> None:
    """The address of HTTP, which may have keys, does not count."""
    local = plan(wyoming=10300, host="0.0.0.0")
    assert local == WyomingPlan("127.0.0.1", 10300, False) and not local.is_open
    remote = plan(wyoming=10300, wyoming_host="0.0.0.0")
    assert remote == WyomingPlan("0.0.0.0", 10300, False) and remote.is_open


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"wyoming": 70_000}, "it must be 65535 or less"),
        ({"wyoming_zeroconf": True}, "set its port with wyoming"),
        ({"wyoming": 10300, "wyoming_zeroconf": True}, "cannot reach 127.0.0.1; set wyoming_host"),
    ],
)
def test_settings_that_are_rejected(flags: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        plan(**flags)


def test_announcing_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"wyoming": 10300, "wyoming_host": "0.0.0.0", "wyoming_zeroconf": True}
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with pytest.raises(MissingDependencyError, match="pip install zeroconf") as caught:
        plan(**flags)
    assert isinstance(caught.value, AntiphonError)
    monkeypatch.setitem(sys.modules, "zeroconf", ModuleType("zeroconf"))
    assert plan(**flags) == WyomingPlan("0.0.0.0", 10300, True)


@pytest.mark.asyncio
async def test_what_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the calls of the package recorded: multicast is not there on every machine that runs tests."""
    calls: list[tuple[str, object]] = []

    class ServiceInfo:
        def __init__(self, kind: str, name: str, *, addresses: list[bytes], port: int, server: str) -> None:
            self.fields = (kind, name.endswith(f".{SERVICE}"), addresses, port, server.endswith(".local."))

    class AsyncZeroconf:
        def __init__(self, interfaces: list[str]) -> None:
            calls.append(("open", interfaces))

        async def async_register_service(self, service: ServiceInfo) -> None:
            calls.append(("register", service.fields))

        async def async_unregister_service(self, service: ServiceInfo) -> None:
            calls.append(("unregister", service.fields))

        async def async_close(self) -> None:
            calls.append(("close", None))

    package, asynchronous = ModuleType("zeroconf"), ModuleType("zeroconf.asyncio")
    package.ServiceInfo = ServiceInfo  # type: ignore[attr-defined]
    asynchronous.AsyncZeroconf = AsyncZeroconf  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zeroconf", package)
    monkeypatch.setitem(sys.modules, "zeroconf.asyncio", asynchronous)
    announcement = Announcement("127.0.0.1", 10300)
    await announcement.start()
    await announcement.stop()
    fields = ("_wyoming._tcp.local.", True, [b"\x7f\0\0\1"], 10300, True)
    wanted = [("open", ["127.0.0.1"]), ("register", fields), ("unregister", fields), ("close", None)]
    assert calls == wanted
