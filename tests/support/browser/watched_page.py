"""`watched_page`: the web page in a browser, with everything noted that must not happen on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from support.waiting import wait_until

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
#: Schemes of what never leaves the browser.
LOCAL_SCHEMES = ("blob", "data", "about", "chrome", "chrome-extension")
#: The longest that a test waits for something that will come, in milliseconds.
PATIENCE = 60_000
SHOWN = 30_000
expect.set_options(timeout=PATIENCE)


@dataclass
class WatchedPage:
    """`page` is Playwright's; messages that match a pattern in `expected` are no faults."""

    page: Page
    context: BrowserContext
    url: str
    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def open(self, view: str = "chat", query: str = "") -> Page:
        """The page at a view, once that view is shown."""
        self.page.goto(f"{self.url}/{query}#/{view}")
        try:
            self.page.locator(f".view-{view.partition('/')[0]}").wait_for(timeout=SHOWN)
        except PlaywrightTimeoutError:
            raise AssertionError(f"the view is not shown; on the page: {self.faults}") from None
        return self.page

    def wait_until(self, expression: str) -> None:
        """Wait until an expression on the page is true. Playwright's own way needs `eval`, which the policy forbids."""
        wait_until(lambda: self.page.evaluate(expression), f"`{expression}` on the page", seen=self._shown)

    def expect_fault(self, pattern: str) -> None:
        """A test that stops a server or gives a wrong key causes messages that would be faults elsewhere."""
        self.expected.append(pattern)

    def check(self) -> None:
        """No console error, no exception, no request to another origin."""
        wrong = [fault for fault in self.faults if not any(re.search(pattern, fault) for pattern in self.expected)]
        assert wrong == []

    def check_accessible(self) -> None:
        """No violation of axe's rules, run by evaluation since the page's policy allows no foreign script."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        told = [
            {"rule": rule["id"], "help": rule["help"], "at": [node["html"][:200] for node in rule["nodes"]]}
            for rule in found["violations"]
        ]
        assert told == [], json.dumps(told, indent=1)

    def _shown(self) -> dict[str, object]:
        """Return the page's text and what was wrong on it so far."""
        return {"text": self.page.inner_text("body"), "faults": self.faults}

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def _note_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL_SCHEMES and parts.netloc != urlsplit(self.url).netloc:
            self.faults.append(f"request to another origin: {request.url}")


@contextmanager
def watched_page(browser: Browser, url: str, **options: Any) -> Iterator[WatchedPage]:
    """A fresh profile; at the end, nothing forbidden must have happened. `options` are those of a browser context."""
    context = browser.new_context(**{"viewport": WIDE, "permissions": ["microphone"], **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    watched = WatchedPage(page, context, url)
    page.on("console", watched._note_message)
    page.on("pageerror", lambda error: watched.faults.append(f"exception: {error}"))
    context.on("request", watched._note_request)
    try:
        yield watched
        watched.check()
    except BaseException as error:
        error.add_note(f"on the page: {watched.faults}")
        raise
    finally:
        context.close()
