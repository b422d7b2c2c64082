"""Views of the web page that need an administrator's key, and requests that give them something to show."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from playwright.sync_api import Page

from support.browser.watched_page import WatchedPage

CHAT_MODEL = "smollm2-135m"
SPEECH_MODEL = "hibari-6m"
TRANSCRIPTION_MODEL = "whisper-tiny.en"
ADMIN_KEY = "an-admin-key-of-the-page"


def open_as_admin(watched: WatchedPage, view: str) -> Page:
    """The view, in a tab that has the key, as `antiphon serve --open` hands it over."""
    watched.page.goto(f"{watched.url}/#admin_key={ADMIN_KEY}")
    return watched.open(view)


@contextmanager
def load(url: str, streams: int = 3, tokens: int = 24) -> Iterator[None]:
    """Completions, one after the other in each stream, until the block ends."""
    is_over = threading.Event()

    def ask(number: int) -> None:
        body = {"model": CHAT_MODEL, "prompt": f"Story {number}: once", "max_tokens": tokens, "ignore_eos": True}
        while not is_over.is_set():
            httpx.post(url + "/v1/completions", json=body, timeout=120)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(streams)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(120)
