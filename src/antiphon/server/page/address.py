"""`PageAddress`: addresses of a server's web page, with and without a ticket for an admin key."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Local address by which a browser reaches a server that listens on all interfaces.
EVERY_INTERFACE = {"://0.0.0.0:": "://127.0.0.1:", "://[::]:": "://[::1]:"}


@dataclass(frozen=True)
class PageAddress:
    """Addresses of the page. A ticket is in the fragment, which browsers do not send and the page removes.

    The ticket of `with_ticket` is valid once, for a short time. Without a ticket, both addresses are equal.
    """

    plain: str
    with_ticket: str = field(repr=False)

    @classmethod
    def of(cls, url: str, ticket: str | None = None) -> PageAddress:
        for listened, reached in EVERY_INTERFACE.items():
            url = url.replace(listened, reached)
        plain = f"{url}/"
        return cls(plain, plain if ticket is None else f"{plain}#ticket={ticket}")
