"""The address of the web page of a server."""

from __future__ import annotations

#: Where a browser on this machine reaches a server that listens on all interfaces.
EVERY_INTERFACE = {"://0.0.0.0:": "://127.0.0.1:", "://[::]:": "://[::1]:"}
KEY_FIELD = "#admin_key="


def page_address(url: str, admin_token: str | None) -> str:
    """The page of the server at `url`. A token is in the fragment, which browsers do not send and the page removes."""
    for listened, reached in EVERY_INTERFACE.items():
        url = url.replace(listened, reached)
    return f"{url}/" if admin_token is None else f"{url}/{KEY_FIELD}{admin_token}"


def without_key(address: str) -> str:
    return address.partition(KEY_FIELD)[0]
