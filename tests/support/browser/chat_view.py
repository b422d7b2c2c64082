"""Actions of a user in the chat of the web page."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, Route, expect

from support.browser.watched_page import WatchedPage, wait_on_page

#: Options of an answer that generates until it is stopped.
ENDLESS = {"max_tokens": 4000, "ignore_eos": True}


def seed_options(watched: WatchedPage, **options: Any) -> None:
    """Set options of the next answers in the open chat and in new chats, as if the user had set them."""
    watched.page.get_by_role("textbox", name="Message").wait_for()
    watched.page.evaluate(
        """async (options) => {
          const { current, setOption } = await import(document.querySelector('script[type=module]').src
            .replace("app/main.js", "views/chat/conversations.js"));
          for (const [name, value] of Object.entries(options)) setOption(current.value, name, value);
        }""",
        options,
    )


def show_answer(page: Page, markdown: str, question: dict[str, Any] | None = None) -> None:
    """Add a question and a complete answer to the open chat, without a model."""
    page.get_by_role("textbox", name="Message").wait_for()
    page.evaluate(
        """async ([content, question]) => {
          const { current, keep } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/conversations.js"));
          const { id } = current.value.add("", { role: "user", content: "How?", ...question });
          current.value.add(id, { role: "assistant", content, model: "m", toolCalls: [], finish: "stop" });
          keep(current.value);
        }""",
        [markdown, question or {}],
    )


def answer_with(page: Page, text: str) -> list[dict[str, Any]]:
    """Answer the questions of a page with `text` in place of a model; return the list that their bodies join."""
    bodies: list[dict[str, Any]] = []

    def answer(route: Route) -> None:
        bodies.append(json.loads(route.request.post_data or ""))
        choices = [{"delta": {"content": text}}, {"delta": {}, "finish_reason": "stop"}]
        events = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
        route.fulfill(content_type="text/event-stream", body="".join([*events, "data: [DONE]\n\n"]))

    page.route("**/v1/chat/completions", answer)
    return bodies


def choose_model(page: Page, name: str) -> None:
    """Select the model for pages opened from now on, as if the user had chosen it on an earlier visit."""
    page.add_init_script(f"localStorage.setItem('antiphon.chat.model', {json.dumps(json.dumps(name))})")


def ask(page: Page, question: str) -> None:
    page.get_by_role("textbox", name="Message").fill(question)
    page.keyboard.press("Enter")
    expect(page.locator(".bubble").last).to_have_text(question)


def wait_for_answer(page: Page, number: int = 1) -> None:
    """Wait until the page shows `number` complete answers and no answer in progress."""
    expect(page.locator(".answer-foot .figures")).to_have_count(number)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def last_answer(page: Page) -> str:
    return page.locator(".answer").last.locator(".markdown").inner_text()


def num_characters(page: Page, answer: int = 0) -> int:
    """Return the length of an answer's text so far; 0 before the first character."""
    return int(page.evaluate(_length(answer)))


def wait_for_characters(page: Page, number: int, answer: int = 0) -> None:
    wait_on_page(page, f"({_length(answer)}) > {number}")


def _length(answer: int) -> str:
    return f"document.querySelectorAll('.answer')[{answer}]?.querySelector('.markdown')?.textContent.length ?? 0"


def stored_chats(page: Page) -> list[dict[str, Any]]:
    """Return the conversations in the browser's database."""
    found = page.evaluate(
        """() => new Promise((resolve) => {
          indexedDB.open("antiphon").onsuccess = (event) => {
            const all = event.target.result.transaction("conversations").objectStore("conversations").getAll();
            all.onsuccess = () => resolve(JSON.stringify(all.result));
          };
        })"""
    )
    return list(json.loads(found))
