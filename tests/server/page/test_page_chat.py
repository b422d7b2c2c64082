"""Chat on the web page, in a browser with a real model: answers stream, stop, branch, and are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser.chat_view import (
    ENDLESS,
    ask,
    num_characters,
    seed_options,
    stored_chats,
    wait_for_answer,
    wait_for_characters,
)
from support.browser.watched_page import WatchedPage
from support.server.http_server import RunningServer
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


def listed_chats(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Chats").get_by_role("listitem")


def test_an_answer_streams_and_stops(watched: WatchedPage, page_server: RunningServer) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    ask(page, "Tell me a long story about a choir.")
    wait_for_characters(page, 20)
    seen = num_characters(page)
    wait_for_characters(page, seen + 20)
    expect(page.locator(".answer").last).to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures")).to_contain_text("stopped by you")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page_server.wait_until_idle()
    kept = num_characters(page)

    def nodes() -> Any:
        return stored_chats(page)[0]["nodes"].values()

    wait_until(lambda: any("figures" in node for node in nodes()), "stored figures", seen=lambda: list(nodes()))
    page.reload()
    expect(page.locator(".figures")).to_contain_text("stopped by you")
    assert num_characters(page) == kept


def test_a_question_is_asked_by_the_keyboard_and_has_figures(watched: WatchedPage) -> None:
    page = watched.open()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    seed_options(watched, temperature=0, max_tokens=4)
    page.keyboard.type("One line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and another")
    page.keyboard.press("Enter")
    expect(page.locator(".bubble")).to_have_text("One line\nand another")
    wait_for_answer(page)
    figures = page.locator(".figures").inner_text()
    assert "tokens/s" in figures and "first token after" in figures
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


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
    seed_options(watched, temperature=1, max_tokens=4)
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
    page.keyboard.press("Escape")
    expect(page.locator(".bubble")).to_have_text(["First question.", "Second question."])
    page.get_by_role("button", name="Edit the question").last.click()
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
    expect(listed_chats(page)).to_have_count(2)


def test_chats_are_found_renamed_saved_and_deleted(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, max_tokens=2)
    for question in ("About violins.", "About trumpets."):
        page.get_by_role("link", name="New chat").first.click()
        expect(page.get_by_text("Ask something")).to_be_visible()
        ask(page, question)
        wait_for_answer(page)
    chats = listed_chats(page)
    expect(chats).to_have_count(2)
    page.get_by_role("searchbox", name="Search chats").fill("VIOLIN")
    expect(chats).to_have_count(1)
    page.get_by_role("searchbox", name="Search chats").fill("tubas")
    expect(page.get_by_text("No chat contains “tubas”.")).to_be_visible()
    page.get_by_role("searchbox", name="Search chats").fill("VIOLIN")
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

    def titles() -> list[str]:
        return [chat["title"] for chat in stored_chats(page)]

    wait_until(lambda: "Strings" in titles(), "the new title to be stored", seen=titles)

    page.reload()
    page.get_by_role("button", name="Manage Strings").click()
    page.get_by_role("button", name="Delete").click()
    expect(chats).to_have_count(1)
    expect(page.get_by_text("Ask something")).to_be_visible()
    wait_until(lambda: len(titles()) == 1, "one stored chat", seen=titles)
    page.reload()
    expect(chats).to_have_count(1)


@pytest.mark.slow
def test_an_answer_goes_on_in_another_chat(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    chats = listed_chats(page)
    for _ in range(5):  # on a busy machine an answer may fill the context before another chat is open
        ask(page, "Tell me a long story.")
        wait_for_characters(page, 20)
        seen = num_characters(page)
        page.get_by_role("link", name="New chat").first.click()
        expect(page.get_by_text("Ask something")).to_be_visible()
        if "answering" in chats.first.inner_text():
            break
    expect(chats.first).to_contain_text("answering")
    chats.first.get_by_role("link").click()
    wait_for_characters(page, seen + 20)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures")).to_contain_text("stopped by you")


@pytest.mark.slow
def test_the_last_message_alone_is_drawn_again_while_it_grows(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, max_tokens=8)
    ask(page, "One.")
    wait_for_answer(page)
    seed_options(watched, **ENDLESS)
    ask(page, "Two.")
    wait_for_characters(page, 5, answer=1)
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
