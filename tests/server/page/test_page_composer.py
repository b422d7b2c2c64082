"""Questions on the web page: examples, attached files, dictation, and settings under a name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Locator, Page, expect

from support.browser.chat_view import answer_with, stored_chats, wait_for_answer
from support.browser.sound_views import drop
from support.browser.talking import ScriptedMicrophone
from support.browser.watched_page import PHONE, WIDE, WatchedPage, watched_page
from support.server.http_server import RunningServer
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]

HOSTILE_NAME = "<img src=x onerror=hasRun=true>.txt"
PASTE = """([name, type, text]) => {
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([text], name, { type }));
  document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def tab(profile: BrowserContext, server: RunningServer) -> Iterator[WatchedPage]:
    """A page on a server with small models of text only."""
    with watched_page(profile, server.url) as page:
        yield page


def chips(page: Page) -> Locator:
    return page.locator(".composer .files li")


def test_an_example_is_asked(tab: WatchedPage) -> None:
    bodies = answer_with(tab.page, "Because.")
    page = tab.open()
    examples = page.get_by_role("list", name="Examples of questions").get_by_role("button")
    expect(examples).to_have_count(4)
    expect(examples.first).to_be_enabled()
    for shape in (PHONE, WIDE):
        page.set_viewport_size(shape)
        tab.check_accessible()
    text = examples.first.inner_text()
    examples.first.focus()
    page.keyboard.press("Enter")
    wait_for_answer(page)
    expect(page.locator(".bubble")).to_have_text(text)
    assert bodies[0]["messages"] == [{"role": "user", "content": text}]


def test_files_are_attached_shown_and_stored(tab: WatchedPage) -> None:
    bodies = answer_with(tab.page, "Read.")
    page = tab.open()
    box = page.get_by_role("textbox", name="Message")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach text files").click()
    notes = FilePayload(name="notes.md", mimeType="text/markdown", buffer=b"# Notes\n\n```\nx\n```\n")
    chooser.value.set_files([notes])
    expect(chips(page)).to_have_count(1)
    drop(page.locator(".chat-main"), [("data.csv", "text/csv", "a,b\n1,é\n".encode())])
    expect(chips(page)).to_have_count(2)
    box.focus()
    page.evaluate(PASTE, [HOSTILE_NAME, "text/plain", "pasted"])
    expect(chips(page)).to_have_count(3)
    drop(page.locator(".chat-main"), [("wide.txt", "text/plain", "wide".encode("utf-16"))])
    expect(chips(page)).to_have_count(4)
    tab.check_accessible()
    page.get_by_role("button", name="Remove data.csv").click()
    expect(chips(page)).to_have_count(3)
    expect(box).to_be_focused()

    box.fill("What is this?")
    page.keyboard.press("Enter")
    wait_for_answer(page)
    expect(chips(page)).to_have_count(0)
    expect(page.locator(".question .files li")).to_have_count(3)
    expect(page.locator(".question .files")).to_contain_text(HOSTILE_NAME)
    (message,) = bodies[0]["messages"]
    assert message["content"] == (
        "File `notes.md`:\n````md\n# Notes\n\n```\nx\n```\n````\n\n"
        f"File `{HOSTILE_NAME}`:\n```txt\npasted\n```\n\nFile `wide.txt`:\n```txt\nwide\n```\n\nWhat is this?"
    )
    assert page.evaluate("window.hasRun") is None
    tab.check_accessible()

    def names() -> list[list[str]]:
        nodes = [node for chat in stored_chats(page) for node in chat["nodes"].values()]
        return [[file["name"] for file in node["files"]] for node in nodes if "files" in node]

    wait_until(lambda: names() == [["notes.md", HOSTILE_NAME, "wide.txt"]], "the stored files", seen=names)
    page.reload()
    expect(page.locator(".question .files li")).to_have_count(3)
    page.get_by_role("button", name="Edit the question").click()
    page.get_by_role("textbox", name="Edit the question").fill("And this?")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".question .files li")).to_have_count(3)


def test_files_that_are_no_text_or_too_large_are_rejected_with_a_sentence(tab: WatchedPage) -> None:
    page = tab.open()
    main = page.locator(".chat-main")
    alert = page.get_by_role("alert")
    drop(main, [("photo.png", "image/png", b"\x89PNG\r\n\x1a\n\0\0"), ("good.txt", "text/plain", b"fine")])
    expect(alert).to_contain_text("photo.png is not a text file")
    expect(chips(page)).to_have_count(1)
    drop(main, [("long.txt", "text/plain", b"x" * 250_001)])
    expect(alert).to_contain_text("long.txt has 250,001 bytes; an attached file may have at most 250,000.")
    tab.check_accessible()
    drop(main, [(f"{number}.txt", "text/plain", b"x") for number in range(8)])
    expect(alert).to_contain_text("A question takes at most 8 files; 7.txt is not attached.")
    expect(chips(page)).to_have_count(8)
    page.get_by_role("button", name="Close this message").click()
    expect(alert).to_have_count(0)


def test_a_question_is_dictated(watched: WatchedPage) -> None:
    microphone = ScriptedMicrophone(watched.page)
    bodies = answer_with(watched.page, "I see.")
    page = watched.open()
    box = page.get_by_role("textbox", name="Message")
    box.fill("He said:")
    page.get_by_role("button", name="Dictate").click()
    stop = page.get_by_role("button", name="Stop dictating")
    expect(stop).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    microphone.keep("country")
    microphone.say("country")
    microphone.wait_until_said()
    stop.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Dictate")).to_be_visible()
    watched.wait_until("document.querySelector('.composer textarea').value.includes('country')")
    told = box.input_value()
    assert told.startswith("He said: ") and "  " not in told
    box.press("Enter")
    wait_for_answer(page)
    assert bodies[0]["messages"][0]["content"] == told


@pytest.mark.slow
def test_dictation_without_a_microphone_says_why(profile: BrowserContext, server: RunningServer) -> None:
    with watched_page(profile, server.url, permissions=()) as watched:
        page = watched.open()
        page.get_by_role("button", name="Dictate").click()
        expect(page.get_by_role("alert")).to_contain_text("did not allow the microphone")
        watched.check_accessible()


def test_settings_are_kept_under_a_name(tab: WatchedPage) -> None:
    page = tab.open()
    page.get_by_role("button", name="Settings", exact=True).click()
    system, temperature = page.get_by_label("System prompt"), page.get_by_label("Temperature")
    name, choice = page.get_by_label("Name of a preset"), page.get_by_label("Preset", exact=True)
    system.fill("Answer in rhymes.")
    temperature.fill("0.3")
    name.fill("Poet")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(choice).to_have_value("Poet")
    tab.check_accessible()
    system.fill("Answer in one word.")
    expect(choice).to_have_value("")
    name.fill("Terse")
    page.keyboard.press("Enter")
    expect(choice).to_have_value("Terse")

    choice.select_option("Poet")
    expect(system).to_have_value("Answer in rhymes.")
    system.fill("Answer in blank verse.")
    page.get_by_role("button", name="Overwrite").click()
    page.reload()
    page.get_by_role("button", name="Settings", exact=True).click()
    choice.select_option("Terse")
    expect(system).to_have_value("Answer in one word.")
    choice.select_option("Poet")
    expect(system).to_have_value("Answer in blank verse.")
    expect(temperature).to_have_value("0.3")
    page.get_by_role("button", name="Delete").click()
    expect(choice.get_by_role("option")).to_have_text(["None", "Terse"])
    stored = page.evaluate("localStorage.getItem('antiphon.chat.presets')")
    assert [preset["name"] for preset in json.loads(stored)] == ["Terse"]
