"""`--max-per-key` counts the requests of clients: not those of batches, and one in the background once."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.gate import Gate
from antiphon.server.web.middleware.internal_call import Caller, InternalAnswer, call
from antiphon.server.web.telemetry.metrics import Metrics

CLIENT, BATCH, BACKGROUND = Caller(0), Caller(0, is_low_priority=True), Caller(0, background_id="resp_1")


def gate(app: ASGIApp, requests: ActiveRequests) -> Gate:
    hosts = AllowedHosts("127.0.0.1")
    rules = Rules(AdminAccess(None, hosts), hosts, KeyRing(["a-long-enough-key"]), per_key=1)
    return Gate(app, rules, requests, Metrics(), lambda: False)


async def answered(running: Caller, asking: Caller) -> InternalAnswer:
    """The answer to one caller while a request of another is in flight."""
    release = asyncio.Event()
    requests = ActiveRequests()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/held":
            await release.wait()
        await json_response({})(scope, receive, send)

    guarded = gate(app, requests)
    held = asyncio.create_task(call(guarded, "/held", b"{}", running))
    while not len(requests):
        await asyncio.sleep(0)
    try:
        return await call(guarded, "/other", b"{}", asking)
    finally:
        release.set()
        assert (await held).status == 200
        assert not len(requests) and requests.count_of_key(0) == 0


@pytest.mark.parametrize(
    ("running", "asking", "status"),
    [
        (CLIENT, CLIENT, 429),
        (BATCH, CLIENT, 200),
        (CLIENT, BATCH, 200),
        (CLIENT, BACKGROUND, 200),  # the client's request is the one that began it
        (BACKGROUND, CLIENT, 429),
    ],
)
def test_what_counts(running: Caller, asking: Caller, status: int) -> None:
    answer = asyncio.run(answered(running, asking))
    assert answer.status == status
    assert answer.retry_after == ("1" if status == 429 else None)


def test_batches_are_in_flight_but_not_of_the_key() -> None:
    async def main() -> None:
        requests = ActiveRequests()
        contexts = [RequestContext("batch", key=3, is_low_priority=True), RequestContext("client", key=3)]
        for context in contexts:
            requests.add(context)
        assert len(requests) == 2 and requests.count_of_key(3) == 1
        for context in contexts:
            requests.remove(context)
        assert requests.count_of_key(3) == 0

    asyncio.run(main())
