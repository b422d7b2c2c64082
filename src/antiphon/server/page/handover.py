"""`KeyHandover`: how `antiphon serve --open` gives the page an admin key.

Other users of the machine can see the address that a browser is started with, so it has a ticket instead of the key.
The page exchanges the ticket by `POST /page/ticket`, once and within `TICKET_SECONDS`.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from antiphon.server.web.http.errors import ApiError

#: Seconds for a browser to start and redeem the ticket.
TICKET_SECONDS = 120.0


class KeyHandover:
    """The one ticket that may be valid, and its key. For the server's event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: tuple[str, str, float] | None = None  # ticket, key, and the ticket's expiry

    def issue(self, key: str) -> str:
        """Return a ticket for the key, which replaces any earlier ticket."""
        ticket = secrets.token_urlsafe(32)
        self._waiting = ticket, key, self._clock() + TICKET_SECONDS
        return ticket

    def redeem(self, ticket: str) -> str:
        """Return the key, and invalidate the ticket. A wrong ticket raises `ApiError` and changes nothing."""
        if self._waiting is not None:
            known, key, expires = self._waiting
            if self._clock() >= expires:
                self._waiting = None
            elif hmac.compare_digest(ticket.encode(), known.encode()):
                self._waiting = None
                return key
        message = "the link that `antiphon serve --open` opened was used already or has expired"
        raise ApiError(403, message, code="invalid_ticket")
