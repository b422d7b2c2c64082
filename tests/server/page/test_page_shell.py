"""The frame of the web page in a browser: it loads, by light and dark, wide and narrow, and without faults."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from support.browser.watched_page import PHONE, WIDE, WatchedPage, watched_page
from support.server.http_server import RunningServer

pytestmark = pytest.mark.browser


def test_the_page_opens_and_finds_the_server_ready(watched: WatchedPage) -> None:
    page = watched.open()
    expect(page).to_have_title("Chat · Antiphon")
    expect(page.locator(".status-word")).to_have_text("Ready")
    expect(page.get_by_role("navigation").get_by_role("link", name="Chat")).to_have_attribute("aria-current", "page")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_shell_is_accessible(
    browser: Browser, page_server: RunningServer, scheme: str, viewport: dict[str, int]
) -> None:
    with watched_page(browser, page_server.url, color_scheme=scheme, viewport=viewport) as watched:
        page = watched.open()
        expect(page.locator(".dot.ready")).to_be_visible()
        watched.check_accessible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
