"""`open_page` and `print_page`: the web page of a server in the user's browser, or its address in the terminal."""

from __future__ import annotations

import sys
import threading
import webbrowser

from antiphon import environment
from antiphon.server.page.address import PageAddress
from antiphon.server.page.handover import TICKET_SECONDS
from antiphon.server.web.access.socket_owner import can_tell_owners


def open_page(address: PageAddress) -> None:
    """Open the page in the background; print its address if no browser can be opened."""
    threading.Thread(target=_open, args=(address,), name="browser", daemon=True).start()


def print_page(address: PageAddress) -> None:
    """Print the page's address with its ticket on a terminal, if the page needs the ticket to get the admin key."""
    if address.with_ticket != address.plain and not can_tell_owners() and sys.stderr.isatty():
        _print(
            f"Within {TICKET_SECONDS / 60:g} minutes this link opens the web page with its admin key, once:", address
        )


def _open(address: PageAddress) -> None:
    try:
        is_open = environment.can_show_a_browser() and webbrowser.open(address.with_ticket)
    except (webbrowser.Error, OSError):
        is_open = False
    if not is_open:
        _print("No browser could be opened. The web page is at", address)


def _print(sentence: str, address: PageAddress) -> None:
    """Print an address, with its ticket only on a terminal: other output may be a log that others read."""
    shown = address.with_ticket if sys.stderr.isatty() else address.plain
    print(f"{sentence} {shown}", file=sys.stderr, flush=True)
