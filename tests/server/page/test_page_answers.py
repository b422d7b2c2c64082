"""What an answer on the web page can hold: code, reasoning, calls of tools, and sound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from support.browser.chat_view import ENDLESS, ask, choose_model, seed_options, show_answer, wait_for_answer
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page, and models answer, are heard or speak")]


def test_code_has_a_button_that_copies_it(profile: BrowserContext, page_server: RunningServer) -> None:
    with watched_page(profile, page_server.url, ["clipboard-read", "clipboard-write"]) as watched:
        page = watched.open()
        show_answer(page, "Do this:\n\n1. First:\n   ```sh\n   ls\n   ```\n\n```py\nprint(1)\n```")
        expect(page.locator(".code-head")).to_have_count(2)
        page.get_by_role("button", name="Copy the code").last.click()
        expect(page.locator(".copy-code").last).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == "print(1)"
        watched.check_accessible()


def test_reasoning_is_folded(profile: BrowserContext, server: RunningServer, thinker_folder: Path) -> None:
    """The model's template opens its reasoning, and the model never ends it."""
    with watched_page(profile, server.url) as watched:
        choose_model(watched.page, thinker_folder.name)
        page = watched.open()
        seed_options(watched, max_tokens=8, ignore_eos=True)
        ask(page, "hello")
        wait_for_answer(page)
        reasoning = page.locator(".reasoning")
        expect(reasoning.locator("summary")).to_contain_text("Thought for")
        expect(reasoning.locator(".reasoning-text")).to_be_hidden()
        reasoning.locator("summary").click()
        expect(reasoning.locator(".reasoning-text")).to_be_visible()
        assert reasoning.locator(".reasoning-text").inner_text().strip()


def test_a_tool_is_called_in_the_page_and_shown(
    profile: BrowserContext, server: RunningServer, chat_folder: Path
) -> None:
    """A tiny model has to call the tool of its first request, with the only arguments that its schema allows."""

    def demand_a_call(route: Route) -> None:
        body = json.loads(route.request.post_data or "")
        if len(bodies) == 0:
            (tool,) = body["tools"]
            tool["function"]["parameters"]["properties"]["expression"] = {"const": "1234 * 5678"}
            body["tool_choice"] = {"type": "function", "function": {"name": "calculate"}}
            body["max_tokens"] = 200
        else:
            body["tool_choice"] = "none"
        bodies.append(body)
        route.continue_(post_data=json.dumps(body))

    bodies: list[dict[str, object]] = []
    with watched_page(profile, server.url) as watched:
        choose_model(watched.page, chat_folder.name)
        page = watched.open()
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Calculator").check()
        seed_options(watched, temperature=0, max_tokens=4)
        page.route("**/v1/chat/completions", demand_a_call)
        ask(page, "What is 1234 * 5678? Use the tool calculate.")
        call = page.locator(".tool-call").first
        expect(call.locator("summary")).to_contain_text("calculate")
        expect(call.locator("summary")).to_contain_text("called")
        call.locator("summary").click()
        expect(call).to_contain_text("7006652")
        wait_for_answer(page)
        watched.check_accessible()
    assert len(bodies) == 2
    *_, call_message, result = bodies[1]["messages"]  # type: ignore[misc]
    assert call_message["tool_calls"][0]["id"] == result["tool_call_id"]
    assert json.loads(result["content"]) == {"value": 7006652}


def test_an_answer_is_read_aloud(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, temperature=0, max_tokens=16)
    ask(page, "Say a sentence about the sea.")
    wait_for_answer(page)
    page.evaluate(
        """async () => {
          const { spoken } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/speech.js"));
          window.loudest = 0;
          const samples = new Float32Array(2048);
          setInterval(() => {
            spoken.value?.player.analyser.getFloatTimeDomainData(samples);
            window.loudest = Math.max(window.loudest, ...samples);
          }, 50);
        }"""
    )
    page.get_by_role("button", name="Read aloud").click()
    watched.wait_until("window.loudest > 0.02")
    page.get_by_role("button", name="Stop reading aloud").click()
    expect(page.get_by_role("button", name="Read aloud")).to_be_visible()


@pytest.mark.slow
def test_nothing_is_read_after_an_answer_was_stopped_before_its_first_word(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    ask(page, "Tell me a story.")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures")).to_contain_text("stopped by you")
    expect(page.get_by_role("button", name="Answer again")).to_be_visible()
