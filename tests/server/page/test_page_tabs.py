"""Chats in two tabs of a browser: what one tab adds, renames or deletes, the other one shows and keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from support.browser.chat_view import answer_with, ask, stored_chats, wait_for_answer
from support.browser.watched_page import WatchedPage, watched_page, watched_tab
from support.server.http_server import RunningServer
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page in two tabs")]


@pytest.fixture
def tabs(profile: BrowserContext, server: RunningServer) -> Iterator[tuple[WatchedPage, WatchedPage]]:
    """Two tabs whose questions are answered without a model."""
    with watched_page(profile, server.url) as one, watched_tab(profile, server.url) as other:
        for tab, text in ((one, "From the first tab."), (other, "From the second tab.")):
            answer_with(tab.page, text)
            tab.open()
            tab.page.get_by_role("textbox", name="Message").wait_for()
        yield one, other


def listed(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Chats").get_by_role("link")


def test_a_chat_is_seen_renamed_and_deleted_in_another_tab(tabs: tuple[WatchedPage, WatchedPage]) -> None:
    one, other = (tab.page for tab in tabs)
    expect(other.get_by_text("No chats yet")).to_be_visible()
    ask(one, "About violins.")
    wait_for_answer(one)
    expect(listed(other)).to_have_count(1)
    expect(listed(other)).to_contain_text("About violins.")
    listed(other).click()
    expect(other.locator(".answer .markdown")).to_have_text("From the first tab.")

    other.get_by_role("button", name="Manage About violins.").click()
    other.get_by_label("Title").fill("Strings")
    other.get_by_role("button", name="Save the title").click()
    expect(listed(one)).to_contain_text("Strings")

    one.get_by_role("button", name="Manage Strings").click()
    one.get_by_role("button", name="Delete").click()
    for page in (one, other):
        expect(listed(page)).to_have_count(0)
        expect(page.get_by_text("Ask something")).to_be_visible()
    ask(other, "About trumpets.")  # nothing of the deleted chat comes back
    wait_for_answer(other)
    expect(listed(one)).to_have_count(1)
    wait_until(lambda: [chat["title"] for chat in stored_chats(one)] == ["About trumpets."], "one stored chat")


def test_two_tabs_answer_in_the_same_chat(tabs: tuple[WatchedPage, WatchedPage]) -> None:
    one, other = (tab.page for tab in tabs)
    ask(one, "First question.")
    wait_for_answer(one)
    listed(other).click()
    expect(other.locator(".bubble")).to_have_text(["First question."])
    one.get_by_role("button", name="Edit the question").wait_for()
    ask(one, "Second, here.")
    expect(other.locator(".bubble")).to_have_text(["First question.", "Second, here."])
    wait_for_answer(one, 2)
    ask(other, "Third, there.")
    expect(one.locator(".bubble")).to_have_text(["First question.", "Second, here.", "Third, there."])

    def contents() -> list[str]:
        (chat,) = stored_chats(one)
        return sorted(node["content"] for node in chat["nodes"].values() if node["role"] == "assistant")

    wanted = ["From the first tab."] * 2 + ["From the second tab."]
    wait_until(lambda: contents() == wanted, "all answers stored", seen=contents)
    one.reload()
    expect(one.locator(".answer .markdown")).to_have_text(wanted)
