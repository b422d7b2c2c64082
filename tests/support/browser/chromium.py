"""Debian's Chromium for the tests of the web page. Run as a program, it installs it where that is possible.

Tests that need a browser fail without one: they only run when they are asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


def find() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


def chromium_path() -> str:
    found = find()
    assert found is not None, f"the tests of the web page need Chromium: {' '.join(INSTALL)}"
    return found


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """A browser without a window, whose microphone is a file or a beep and needs no permission.

    Use it for a module at most: while it runs, this thread has an event loop.
    """
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium has none for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=[*sandbox, *MICROPHONE, *arguments])
        try:
            yield browser
        finally:
            browser.close()


def install() -> None:
    """Install it by the system's packages; without root or apt-get, say what to install."""
    if find() is not None:
        return
    if os.geteuid() != 0 or shutil.which(INSTALL[0]) is None:
        sys.exit(f"the tests of the web page need Chromium: install it first, for instance by {' '.join(INSTALL)}")
    subprocess.run([INSTALL[0], "update"], check=True)
    subprocess.run(INSTALL, check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


if __name__ == "__main__":
    install()
