"""`KeyHandover`: how `antiphon serve --open` gives the page an admin key.

The address that a browser is started with is visible to other users of the machine, so it has a ticket instead of the
key. The page exchanges it by `POST /page/ticket`, once and soon.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from antiphon.server.web.http.errors import ApiError

#: Time for a browser to start.
TICKET_SECONDS = 120.0


class KeyHandover:
    """At most one ticket is valid. For the server's event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: tuple[str, str, float] | None = None  # the ticket, the key, and when the ticket expires

    def issue(self, key: str) -> str:
        """A ticket for the key, in place of any earlier one."""
        ticket = secrets.token_urlsafe(32)
        self._waiting = ticket, key, self._clock() + TICKET_SECONDS
        return ticket

    def redeem(self, ticket: str) -> str:
        """The key. The ticket is invalid afterwards; a wrong one does not change that of another page."""
        if self._waiting is not None:
            known, key, expires = self._waiting
            if self._clock() >= expires:
                self._waiting = None
            elif hmac.compare_digest(ticket.encode(), known.encode()):
                self._waiting = None
                return key
        message = "the link that `antiphon serve --open` opened was used already or has expired"
        raise ApiError(403, message, code="invalid_ticket")
