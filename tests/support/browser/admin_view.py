"""Views of the web page that need a key, and requests that fill them with data."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from playwright.sync_api import Page

from antiphon.runtime.process.client import EngineState
from support.browser.watched_page import WatchedPage
from support.server.http_server import RunningServer
from support.waiting import wait_until

CHAT_MODEL = "smollm2-135m"
SPEECH_MODEL = "hibari-6m"
TRANSCRIPTION_MODEL = "whisper-tiny.en"
ADMIN_KEY = "an-admin-key-of-the-page"
API_KEY = "the-right-key-of-the-page"
#: Maximum bytes of a recording on the page's test server.
MAX_RECORDING = 1 << 20


def open_as_admin(watched: WatchedPage, view: str) -> Page:
    """Open a view in a tab that has the admin key, as if the user had entered it."""
    enter_admin_key(watched.page, ADMIN_KEY)
    return watched.open(view)


def enter_admin_key(page: Page, key: str) -> None:
    """Give the tab an admin key before its next page is opened."""
    kept = json.dumps(key)
    page.add_init_script(f"sessionStorage['antiphon.admin-key'] ??= {kept}")


def give_key(page: Page, key: str) -> None:
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key").fill(key)
    dialog.get_by_role("button", name="Use this key").click()


@contextmanager
def load(url: str, streams: int = 3, tokens: int = 24) -> Iterator[None]:
    """Send completion requests, one at a time per stream, until the block ends."""
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


def kill_engine(server: RunningServer) -> Callable[[], None]:
    """Kill the engine process; return a function that waits until a new process has loaded the models."""
    client, models = server.serving.client, server.serving.models
    killed = client.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)

    def is_back() -> bool:
        return client.pid not in (None, killed) and client.state is EngineState.READY and models.is_ready

    def wait() -> None:
        wait_until(is_back, "a new engine with its models", seen=lambda: (client.state, client.cause))

    return wait
