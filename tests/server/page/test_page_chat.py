"""Chat on the web page, in a browser with a real model: answers stream, stop, branch, and are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser.chat_view import ENDLESS, ask, seed_options, stored_chats, wait_for_answer
from support.browser.watched_page import WatchedPage
from support.server.http_server import RunningServer
from support.waiting import wait_until

pytestmark = pytest.mark.browser

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


def answers(page: Page) -> Locator:
    return page.locator(".answer")


def num_characters(page: Page) -> int:
    return int(page.evaluate("document.querySelector('.answer .markdown')?.textContent.length ?? 0"))


def test_an_answer_streams_and_stops(watched: WatchedPage, page_server: RunningServer) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    ask(page, "Tell me a long story about a choir.")
    watched.wait_until("document.querySelector('.answer .markdown')?.textContent.length > 20")
    seen = num_characters(page)
    watched.wait_until(f"document.querySelector('.answer .markdown').textContent.length > {seen + 40}")
    expect(answers(page).last).to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures")).to_contain_text("stopped by you")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page_server.wait_until_idle()
    kept = num_characters(page)
    nodes = lambda: stored_chats(page)[0]["nodes"].values()  # noqa: E731
    wait_until(lambda: any("figures" in node for node in nodes()), "stored figures", seen=lambda: list(nodes()))
    page.reload()
    expect(page.locator(".figures")).to_contain_text("stopped by you")
    assert num_characters(page) == kept


def test_figures_are_under_an_answer(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, temperature=0, max_tokens=12)
    ask(page, "Say hello.")
    wait_for_answer(page)
    figures = page.locator(".figures").inner_text()
    assert "tokens/s" in figures and "first token after" in figures
    assert page.title() == "Chat · Antiphon"


def test_an_answer_by_a_schema(watched: WatchedPage) -> None:
    page = watched.open()
    page.get_by_role("button", name="Settings").click()
    field = page.get_by_label("JSON schema of the answer")
    field.fill("{")
    expect(page.get_by_text("Not JSON yet")).to_be_visible()
    field.fill(json.dumps(SCHEMA))
    expect(page.get_by_text("Not JSON yet")).to_have_count(0)
    ask(page, "Name a colour and a number.")
    wait_for_answer(page)
    told = json.loads(page.locator(".answer pre code").inner_text())
    assert told["colour"] in ("red", "green") and 0 <= told["count"] <= 9
    page.get_by_role("button", name="Reset").click()
    expect(field).to_have_value("")


def test_other_answers_other_questions_and_their_branches(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, temperature=1, max_tokens=8)
    ask(page, "First question.")
    wait_for_answer(page)
    page.get_by_role("button", name="Answer again").click()
    versions = page.get_by_role("group", name="Versions of the answer")
    expect(versions).to_contain_text("2 / 2")
    wait_for_answer(page)
    page.get_by_role("button", name="Previous answer").click()
    expect(versions).to_contain_text("1 / 2")
    expect(page.get_by_role("button", name="Previous answer")).to_be_disabled()

    ask(page, "Second question.")
    wait_for_answer(page, 2)
    page.get_by_role("button", name="Edit the question").last.click()
    editor = page.get_by_role("textbox", name="Edit the question")
    expect(editor).to_have_value("Second question.")
    editor.fill("Another second question.")
    page.get_by_role("button", name="Ask again").click()
    wait_for_answer(page, 2)
    expect(page.locator(".bubble")).to_have_text(["First question.", "Another second question."])
    page.get_by_role("button", name="Previous question").click()
    expect(page.locator(".bubble")).to_have_text(["First question.", "Second question."])

    page.get_by_role("button", name="Next answer").click()  # of the first question: nothing was asked below it
    expect(page.locator(".bubble")).to_have_text(["First question."])
    page.get_by_role("button", name="Previous answer").click()
    expect(page.locator(".bubble")).to_have_text(["First question.", "Second question."])

    page.get_by_role("button", name="Continue in a new chat").first.click()
    expect(page.locator(".bubble")).to_have_text(["First question."])
    expect(page.get_by_role("navigation", name="Chats").get_by_role("listitem")).to_have_count(2)


def test_an_edit_is_given_up_with_escape(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, max_tokens=4)
    ask(page, "A question.")
    wait_for_answer(page)
    page.get_by_role("button", name="Edit the question").click()
    page.get_by_role("textbox", name="Edit the question").fill("something else")
    page.keyboard.press("Escape")
    expect(page.locator(".bubble")).to_have_text(["A question."])


def test_chats_are_found_renamed_saved_and_deleted(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, max_tokens=4)
    for question in ("About violins.", "About trumpets."):
        page.get_by_role("link", name="New chat").first.click()
        expect(page.get_by_text("Ask something")).to_be_visible()
        ask(page, question)
        wait_for_answer(page)
    chats = page.get_by_role("navigation", name="Chats").get_by_role("listitem")
    expect(chats).to_have_count(2)
    page.get_by_role("searchbox", name="Search chats").fill("VIOLIN")
    expect(chats).to_have_count(1)
    chats.get_by_role("link").click()
    expect(page.locator(".bubble")).to_have_text(["About violins."])

    page.get_by_role("button", name="Manage About violins.").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="JSON").click()
    told = json.loads(saved.value.path().read_text(encoding="utf-8"))
    assert told["format"] == "antiphon.conversation.v1" and len(told["nodes"]) == 2
    with page.expect_download() as saved:
        page.get_by_role("button", name="Markdown").click()
    assert saved.value.suggested_filename == "About-violins.md"
    assert saved.value.path().read_text(encoding="utf-8").startswith("# About violins.\n\n## You\n\nAbout violins.\n")
    page.get_by_role("dialog").get_by_label("Title").fill("Strings")
    page.keyboard.press("Enter")
    page.get_by_role("searchbox", name="Search chats").fill("strings")
    expect(chats).to_contain_text(["Strings"])
    titles = lambda: [chat["title"] for chat in stored_chats(page)]  # noqa: E731
    wait_until(lambda: "Strings" in titles(), "the new title to be stored", seen=titles)

    page.reload()
    page.get_by_role("button", name="Manage Strings").click()
    page.get_by_role("button", name="Delete").click()
    expect(chats).to_have_count(1)
    expect(page.get_by_text("Ask something")).to_be_visible()
    wait_until(lambda: len(titles()) == 1, "one stored chat", seen=titles)
    page.reload()
    expect(chats).to_have_count(1)


def test_an_answer_goes_on_in_another_view_and_in_another_chat(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    chats = page.get_by_role("navigation", name="Chats").get_by_role("listitem")
    for _ in range(5):  # on a busy machine an answer may fill the context before another chat is open
        ask(page, "Tell me a long story.")
        watched.wait_until("document.querySelector('.answer .markdown')?.textContent.length > 20")
        seen = num_characters(page)
        page.get_by_role("link", name="New chat").first.click()
        expect(page.get_by_text("Ask something")).to_be_visible()
        if "answering" in chats.first.inner_text():
            break
    expect(chats.first).to_contain_text("answering")
    chats.first.get_by_role("link").click()
    watched.wait_until(f"document.querySelector('.answer .markdown')?.textContent.length > {seen + 20}")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures")).to_contain_text("stopped by you")


def test_the_last_message_alone_is_drawn_again_while_it_grows(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, max_tokens=30)
    ask(page, "One.")
    wait_for_answer(page)
    seed_options(watched, **ENDLESS)
    ask(page, "Two.")
    watched.wait_until("document.querySelectorAll('.answer')[1]?.querySelector('.markdown')?.textContent.length > 5")
    page.evaluate(
        """() => {
          window.changed = [0, 0];
          const answers = document.querySelectorAll(".answer");
          answers.forEach((answer, index) => new MutationObserver((list) => (window.changed[index] += list.length))
            .observe(answer, { subtree: true, childList: true, characterData: true, attributes: true }));
        }"""
    )
    watched.wait_until("window.changed[1] > 10")
    page.get_by_role("button", name="Stop").wait_for()
    assert page.evaluate("window.changed[0]") == 0
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures").last).to_contain_text("stopped by you")
