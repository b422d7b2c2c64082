"""Clients that leave while the server sends: nothing of theirs is left, and the log has no failure."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from antiphon.server.web.http.websocket import BoundedWebSocket
from support.server.fake_voice import text
from support.server.realtime_server import FakeRealtime, fake_realtime
from support.waiting import wait_until, wait_until_async

pytestmark = pytest.mark.asyncio


@pytest.fixture
def realtime() -> Iterator[FakeRealtime]:
    with fake_realtime() as server:
        server.prepare = lambda voice: voice.answers.append(text(*["word "] * 3000))  # five minutes of sound
        yield server


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> list[BoundedWebSocket]:
    """Connections whose client does not read, once the server waits for it."""
    found: list[BoundedWebSocket] = []
    pause = BoundedWebSocket.pause_writing

    def pause_writing(connection: BoundedWebSocket) -> None:
        pause(connection)
        found.append(connection)

    monkeypatch.setattr(BoundedWebSocket, "pause_writing", pause_writing)
    return found


def check_log(caplog: pytest.LogCaptureFixture, realtime: FakeRealtime) -> None:
    """Wait for the line of the session; it is the only one."""
    events = lambda: [record.getMessage() for record in caplog.records]  # noqa: E731
    wait_until(lambda: "request" in events(), "the session to end", seen=events)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.INFO, "request")]
    assert not len(realtime.serving.requests) and realtime.voice.is_closed


async def test_a_client_that_leaves_while_the_server_sends_is_no_failure(
    realtime: FakeRealtime, stalled: list[BoundedWebSocket], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "antiphon"):
        async with realtime.session(max_queue=1) as session:
            await session.send("response.create")
            await wait_until_async(lambda: stalled, "the server to wait for the client")
            session.socket.transport.abort()
        check_log(caplog, realtime)


async def test_a_connection_that_the_server_gives_up_is_no_failure(
    realtime: FakeRealtime, stalled: list[BoundedWebSocket], caplog: pytest.LogCaptureFixture
) -> None:
    """A client that reads too slowly to answer a ping in time; the session still sends."""
    with caplog.at_level(logging.INFO, "antiphon"):
        async with realtime.session(max_queue=1) as session:
            await session.send("response.create")
            await wait_until_async(lambda: stalled, "the server to wait for the client")
            for _ in range(2):  # the first time the pong may be behind what came
                realtime.call(stalled[0].keepalive_timeout)
            realtime.call(stalled[0].resume_writing)
            check_log(caplog, realtime)
            session.socket.transport.abort()
