"""`open_page`: the web page of a server in the user's browser."""

from __future__ import annotations

import sys
import threading
import webbrowser

from antiphon import environment
from antiphon.server.page.address import PageAddress


def open_page(address: PageAddress) -> None:
    """Open the page in the background; print its address if no browser can be opened.

    The admin key in the address is printed on a terminal only: other output may end up in a log.
    """
    threading.Thread(target=_open, args=(address,), name="browser", daemon=True).start()


def _open(address: PageAddress) -> None:
    try:
        is_open = environment.can_show_a_browser() and webbrowser.open(address.opened)
    except (webbrowser.Error, OSError):
        is_open = False
    if not is_open:
        shown = address.printed if sys.stderr.isatty() else address.plain
        print(f"No browser could be opened. The web page is at {shown}", file=sys.stderr, flush=True)
