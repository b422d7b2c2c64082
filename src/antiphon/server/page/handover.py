"""`KeyHandover`: how the page gets the admin token that a server on a loopback address makes for its own user.

The page asks by `POST /page/admin-key`. It gets the token if its end of the connection belongs to the server's user.
Where the system does not show the users of connections, the page's address has a ticket, which the page exchanges for
the token: once, and within `TICKET_SECONDS`. The address is in the command line of a browser, where other users of the
machine can read it, so it must not contain the token itself.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import time
from collections.abc import Callable

from starlette.types import Scope

from antiphon.server.web.access.local_page import refused
from antiphon.server.web.access.socket_owner import can_tell_owners, owner_of_peer

#: Seconds for a browser to start and exchange the ticket.
TICKET_SECONDS = 120.0


class KeyHandover:
    """The server's own admin token, or None, and its one ticket that may be valid. For the server's event loop.

    `owns_names` is whether no other program can serve pages as `localhost` at the server's port.
    """

    def __init__(
        self, token: str | None = None, owns_names: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._token = token
        self.owns_names = owns_names
        self._clock = clock
        self._waiting: tuple[str, float] | None = None  # the ticket and its expiry
        self._searching = asyncio.Lock()  # a search takes a thread, which a flood of requests must not multiply

    def issue(self) -> str | None:
        """Return a ticket for the token, which replaces any earlier ticket, or None if there is no token."""
        if self._token is None:
            return None
        ticket = secrets.token_urlsafe(32)
        self._waiting = ticket, self._clock() + TICKET_SECONDS
        return ticket

    def token(self) -> str:
        """Return the token for a page that was recognised. Raise `ApiError` if the server made none."""
        if self._token is None:
            cause = "this server has made none; its keys, if any, are in the file given by --admin-key-file"
            raise refused("no_admin_token", cause)
        return self._token

    def redeem(self, ticket: str) -> str:
        """Return the token, and invalidate the ticket. A wrong ticket raises `ApiError` and changes nothing."""
        if self._waiting is not None:
            known, expires = self._waiting
            if self._clock() >= expires:
                self._waiting = None
            elif hmac.compare_digest(ticket.encode(), known.encode()):
                self._waiting = None
                return self.token()
        raise refused("invalid_ticket", "the link with a ticket was used already or has expired")

    async def give(self, scope: Scope) -> str:
        """Return the token if the other end of the request's connection belongs to the server's user."""
        token = self.token()
        if not can_tell_owners():
            raise refused("unknown_user", "this system does not show which user a connection belongs to")
        async with self._searching:
            owner = await asyncio.to_thread(owner_of_peer, tuple(scope["client"]), tuple(scope["server"]))
        if owner is None:
            raise refused("unknown_user", "the user of the connection could not be determined")
        if owner != os.geteuid():
            cause = f"the connection belongs to user {owner}, and the server runs as user {os.geteuid()}"
            raise refused("other_user", cause)
        return token
