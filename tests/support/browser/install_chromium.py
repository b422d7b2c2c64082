"""Install Debian's Chromium for the tests of the web page, if the system allows it. Needs only the standard library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")


def find() -> str | None:
    """Return the path of an installed Chromium or Chrome, or None."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


def install() -> None:
    """Install Chromium with apt-get; without root or apt-get, exit with instructions."""
    if find() is not None:
        return
    if os.geteuid() != 0 or shutil.which(INSTALL[0]) is None:
        sys.exit(f"the tests of the web page need Chromium: install it first, for instance by {' '.join(INSTALL)}")
    subprocess.run([INSTALL[0], "update"], check=True)
    subprocess.run(INSTALL, check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


if __name__ == "__main__":
    install()
