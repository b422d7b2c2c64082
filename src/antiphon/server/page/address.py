"""`PageAddress`: addresses of a server's web page, with and without an admin key."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Local address by which a browser reaches a server that listens on all interfaces.
EVERY_INTERFACE = {"://0.0.0.0:": "://127.0.0.1:", "://[::]:": "://[::1]:"}


@dataclass(frozen=True)
class PageAddress:
    """Addresses of the page. Keys and tickets are in the fragment, which browsers do not send and the page removes.

    `opened` is for the command line of a browser, which other users can read: its ticket is valid once, for a short
    time. `printed` has the key itself, for the user's own terminal. Without a token, both equal `plain`.
    """

    plain: str
    opened: str = field(repr=False)
    printed: str = field(repr=False)

    @classmethod
    def of(cls, url: str, admin_token: str | None = None, ticket: str | None = None) -> PageAddress:
        for listened, reached in EVERY_INTERFACE.items():
            url = url.replace(listened, reached)
        plain = f"{url}/"
        opened = plain if ticket is None else f"{plain}#ticket={ticket}"
        return cls(plain, opened, plain if admin_token is None else f"{plain}#admin_key={admin_token}")
