"""The web page's address: for the browser of `serve --open`, or for the terminal."""

from __future__ import annotations

import threading
import webbrowser

import pytest

from antiphon import environment
from antiphon.cli.serving import browser
from antiphon.server.page.address import PageAddress

ADDRESS = PageAddress.of("http://127.0.0.1:8000", "single-use")


def finish() -> None:
    for thread in threading.enumerate():
        if thread.name == "browser":
            thread.join(30)


def test_the_page_is_opened_with_a_ticket(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []
    monkeypatch.setattr(environment, "can_show_a_browser", lambda: True)
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    browser.open_page(ADDRESS)
    finish()
    assert opened == ["http://127.0.0.1:8000/#ticket=single-use"] and capsys.readouterr().err == ""


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("cause", ["no display", "no browser", "error"])
def test_without_a_browser_the_address_is_printed(
    cause: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str) -> bool:
        if cause == "error":
            raise webbrowser.Error("no runnable browser")
        assert cause == "no browser"
        return False

    monkeypatch.setattr(environment, "can_show_a_browser", lambda: cause != "no display")
    monkeypatch.setattr(webbrowser, "open", fail)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    browser.open_page(ADDRESS)
    finish()
    told = capsys.readouterr().err
    assert "http://127.0.0.1:8000/" in told and ("#ticket=single-use" in told) == is_terminal


@pytest.mark.parametrize("tells_owners", [True, False])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_ticket_is_printed_on_terminals_where_the_page_needs_it(
    tells_owners: bool, is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(browser, "can_tell_owners", lambda: tells_owners)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    browser.print_page(ADDRESS)
    told = capsys.readouterr().err
    if tells_owners or not is_terminal:
        assert told == ""
    else:
        assert "Within 2 minutes" in told and "http://127.0.0.1:8000/#ticket=single-use" in told
    browser.print_page(PageAddress.of("http://127.0.0.1:8000"))
    assert capsys.readouterr().err == ""


def test_addresses_of_the_page() -> None:
    local = PageAddress.of("http://127.0.0.1:80", "ticket")
    assert (local.plain, local.with_ticket) == ("http://127.0.0.1:80/", "http://127.0.0.1:80/#ticket=ticket")
    for listened, plain in (
        ("https://0.0.0.0:80", "https://127.0.0.1:80/"),
        ("http://[::]:80", "http://[::1]:80/"),
        ("http://[::1]:80", "http://[::1]:80/"),
    ):
        assert PageAddress.of(listened) == PageAddress(plain, plain)
    assert "=ticket" not in repr(local)


def test_a_display_is_needed_only_where_there_can_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert not environment.can_show_a_browser()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert environment.can_show_a_browser()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setattr("sys.platform", "darwin")
    assert environment.can_show_a_browser()
