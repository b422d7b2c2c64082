"""Chromium for the tests of the web page.

Without Chromium, these tests fail rather than skip: they only run on request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

from support.browser.install_chromium import INSTALL, find

#: Host name of this machine that browsers do not trust as they trust localhost.
OTHER_NAME = "antiphon.test"


def chromium_path() -> str:
    found = find()
    assert found is not None, f"the tests of the web page need Chromium: {' '.join(INSTALL)}"
    return found


class SharedBrowser:
    """Headless browser with one profile, shared by all tests of a process.

    The profile is shared because its cache holds the page's files after the first test, and the renderer process
    because another takes a second to start. The microphone plays a recording once each time it is opened, on pages with
    the permission "microphone".
    Playwright keeps an event loop running in the thread that started it. `in_use` shows that loop to a test and hides
    it afterwards, because asyncio starts no second loop in a thread that has a running one.
    """

    def __init__(self, microphone: Path) -> None:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox does not work for root
        arguments = [
            "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-audio-capture={microphone}%noloop",
            f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1",
            "--renderer-process-limit=1",
            "--disable-site-isolation-trials",
            "--in-process-gpu",
        ]
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        try:
            self._browser = self._playwright.chromium.launch(
                executable_path=chromium_path(), args=[*sandbox, *arguments]
            )
            self._profile = self._browser.new_context()
        except BaseException:
            self._playwright.stop()
            raise
        finally:
            asyncio._set_running_loop(None)

    @contextmanager
    def in_use(self) -> Iterator[BrowserContext]:
        """Yield the profile, with Playwright's event loop visible to the test."""
        asyncio._set_running_loop(self._loop)
        try:
            yield self._profile
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        with self.in_use():
            self._browser.close()
            self._playwright.stop()
