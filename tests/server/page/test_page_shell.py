"""The frame of the web page in a browser: it finds the server ready, and its colours are the system's or the user's."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support.browser.watched_page import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, which finds its server ready")]


def test_the_page_opens_in_the_systems_colours_or_in_the_users(watched: WatchedPage) -> None:
    watched.page.emulate_media(color_scheme="dark")
    page = watched.open()
    expect(page).to_have_title("Chat · Antiphon")
    expect(page.locator(".status-word")).to_have_text("Ready")
    expect(page.get_by_role("navigation").get_by_role("link", name="Chat")).to_have_attribute("aria-current", "page")

    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light colours").click()
    expect(page.get_by_role("button", name="Dark colours")).to_be_visible()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("button", name="Dark colours")).to_be_visible()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(ground) == dark
    assert page.evaluate("document.documentElement.dataset.theme") is None, "the page follows the system again"
