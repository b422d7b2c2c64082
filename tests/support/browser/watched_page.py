"""`watched_page`: the web page in a browser, with a record of faults such as console errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, ViewportSize, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
#: URL schemes that never leave the browser.
LOCAL_SCHEMES = ("blob", "data", "about", "chrome", "chrome-extension")
#: Timeout in milliseconds for states that will come.
PATIENCE = 120_000
expect.set_options(timeout=PATIENCE)


def wait_on_page(page: Page, expression: str, seen: Callable[[], object] | None = None) -> None:
    """Wait until a JavaScript expression, which may use `await`, is true; on a timeout, the error quotes `seen()`.

    The page polls by itself, which costs far less than asking it. Playwright's own way needs `eval`, which the page's
    policy forbids.
    """
    has_come = page.evaluate(
        f"""async () => {{
          const end = performance.now() + {PATIENCE};
          while (!({expression})) {{
            if (performance.now() > end) return false;
            await new Promise((resolve) => setTimeout(resolve, 20));
          }}
          return true;
        }}"""
    )
    shown = seen if seen is not None else lambda: page.inner_text("body")
    assert has_come, f"waited {PATIENCE / 1000:g} s for `{expression}` on the page; seen instead: {shown()!r}"


@dataclass
class WatchedPage:
    """Playwright page with the faults seen on it; messages that match a pattern in `expected` do not count."""

    page: Page
    context: BrowserContext
    url: str
    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def open(self, view: str = "chat", query: str = "") -> Page:
        """Open the page at a view and wait until the view is shown."""
        self.page.goto(f"{self.url}/{query}#/{view}")
        try:
            self.page.locator(f".view-{view.partition('/')[0]}").wait_for()
        except PlaywrightTimeoutError:
            raise AssertionError(f"the view is not shown; on the page: {self.faults}") from None
        return self.page

    def wait_until(self, expression: str) -> None:
        wait_on_page(self.page, expression, seen=self._shown)

    def expect_fault(self, pattern: str) -> None:
        """Allow messages that match `pattern`, for a test that stops a server or gives a wrong key."""
        self.expected.append(pattern)

    def check(self) -> None:
        """Raise if the page has logged an error, thrown an exception or requested another origin."""
        wrong = [fault for fault in self.faults if not any(re.search(pattern, fault) for pattern in self.expected)]
        assert wrong == []

    def check_accessible(self) -> None:
        """Raise if axe finds a violation; evaluated as a string, since the page's policy allows no foreign script."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        told = [
            {"rule": rule["id"], "help": rule["help"], "at": [node["html"][:200] for node in rule["nodes"]]}
            for rule in found["violations"]
        ]
        assert told == [], json.dumps(told, indent=1)

    def _shown(self) -> dict[str, object]:
        return {"text": self.page.inner_text("body"), "faults": self.faults}

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def _note_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL_SCHEMES and parts.netloc != urlsplit(self.url).netloc:
            self.faults.append(f"request to another origin: {request.url}")


@contextmanager
def watched_tab(profile: BrowserContext, url: str) -> Iterator[WatchedPage]:
    """Open a wide tab with the light theme for pages of `url`; check its faults at the end."""
    profile.set_default_timeout(PATIENCE)
    page = profile.new_page()
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    watched = WatchedPage(page, profile, url)
    page.on("console", watched._note_message)
    page.on("pageerror", lambda error: watched.faults.append(f"exception: {error}"))
    page.on("request", watched._note_request)
    try:
        yield watched
        watched.check()
    except BaseException as error:
        error.add_note(f"on the page: {watched.faults}")
        raise
    finally:
        page.close()


@contextmanager
def watched_page(
    profile: BrowserContext, url: str, permissions: Sequence[str] = ("microphone",)
) -> Iterator[WatchedPage]:
    """Open a tab in a profile without data stored for this server; check its faults at the end."""
    if not profile.pages:  # an open tab keeps Chromium's process for these pages, which takes a second to start
        profile.new_page().goto(f"{url}/page/icons/icon.svg")
    if permissions:
        profile.grant_permissions(list(permissions), origin=url)
    try:
        with watched_tab(profile, url) as watched:
            clearing = {"origin": url, "storageTypes": "all"}
            profile.new_cdp_session(watched.page).send("Storage.clearDataForOrigin", clearing)
            yield watched
    finally:
        profile.set_offline(False)
        profile.clear_permissions()
