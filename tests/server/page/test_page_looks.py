"""Chat on the web page by axe, in both colours and on both widths; by keyboard; and how fast it is drawn."""

from __future__ import annotations

from statistics import quantiles
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from support.browser.chat_view import ENDLESS, ask, seed_options, wait_for_answer
from support.browser.watched_page import PHONE, WIDE, WatchedPage, watched_page
from support.server.http_server import RunningServer

pytestmark = pytest.mark.browser

#: About 10,000 tokens in 40 messages.
PARAGRAPH = "The choir sang in the old church, and **the town** listened to `every` note of it, until the night came. "
ANSWER = (PARAGRAPH * 3 + "\n\n- one\n- two\n\n```py\nprint('hello')\n```\n\n") * 4
NUM_TURNS = 20
NUM_FRAMES = 240


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_chat_is_accessible(
    browser: Browser, page_server: RunningServer, scheme: str, viewport: dict[str, int]
) -> None:
    with watched_page(browser, page_server.url, color_scheme=scheme, viewport=viewport) as watched:
        page = watched.open()
        seed_options(watched, max_tokens=16)
        ask(page, "What is a choir?")
        wait_for_answer(page)
        page.get_by_role("button", name="Answer again").click()
        expect(page.get_by_role("group", name="Versions of the answer")).to_contain_text("2 / 2")
        wait_for_answer(page)
        watched.check_accessible()
        page.get_by_role("button", name="Settings", exact=True).click()
        watched.check_accessible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Close the settings").click()
        if viewport is PHONE:
            page.get_by_role("button", name="Show the list of chats").click()
        page.get_by_role("button", name="Manage What is a choir?").click()
        page.get_by_role("dialog").wait_for()
        watched.check_accessible()


def test_colours_are_the_systems_or_the_users(browser: Browser, page_server: RunningServer) -> None:
    with watched_page(browser, page_server.url, color_scheme="dark") as watched:
        page = watched.open()
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


def test_the_keyboard_is_enough(watched: WatchedPage) -> None:
    page = watched.open()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    seed_options(watched, max_tokens=4)
    page.keyboard.type("One line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and another")
    page.keyboard.press("Enter")
    expect(page.locator(".bubble")).to_have_text("One line\nand another")
    wait_for_answer(page)
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_first_paint(watched: WatchedPage, record_property: Any) -> None:
    page = watched.open()
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    watched.wait_until(f"({paint}) !== undefined")
    milliseconds = page.evaluate(paint)
    record_property("first_contentful_paint_ms", milliseconds)
    print(f"first contentful paint: {milliseconds:.0f} ms")


def test_frames_while_an_answer_grows_below_a_long_chat(watched: WatchedPage, record_property: Any) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    page.evaluate(
        """async ([numTurns, answer]) => {
          const { current } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/conversations.js"));
          let parent = "";
          for (let turn = 0; turn < numTurns; turn += 1) {
            parent = current.value.add(parent, { role: "user", content: `Question ${turn}` }).id;
            parent = current.value.add(parent, { role: "assistant", content: answer, model: "m", toolCalls: [] }).id;
          }
        }""",
        [NUM_TURNS, ANSWER],
    )
    expect(page.locator(".answer")).to_have_count(NUM_TURNS)
    page.evaluate(
        """async () => {  // the question is not stored in the long chat's prompt: the model's context is short
          const { ask } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/generation.js"));
          const { current } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/conversations.js"));
          const { model } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/model.js"));
          current.value.setOption("truncate_prompt_tokens", 512);
          ask(current.value, model.value, "Tell me a long story.");
        }"""
    )
    growing = page.locator(".answer").last.locator(".markdown")
    expect(growing).to_contain_text(" ")
    length = len(growing.inner_text())
    frames = page.evaluate(
        """(numFrames) => new Promise((resolve) => {
          const times = [];
          let last = performance.now();
          const frame = (now) => {
            times.push(now - last);
            last = now;
            if (times.length < numFrames) requestAnimationFrame(frame);
            else resolve(times);
          };
          requestAnimationFrame(frame);
        })""",
        NUM_FRAMES,
    )
    assert len(growing.inner_text()) > length, "nothing was written while frames were counted"
    ordered = quantiles(frames, n=100)
    record_property("frame_p95_ms", ordered[94])
    print(f"frames: median {ordered[49]:.1f} ms, 95th percentile {ordered[94]:.1f} ms, longest {max(frames):.1f} ms")
