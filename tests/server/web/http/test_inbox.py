"""Messages that wait, in order and within a limit."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.server.web.http.inbox import OVERHEAD_BYTES, WebSocketInbox

pytestmark = pytest.mark.asyncio


async def settled() -> None:
    """Every task has run as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_messages_keep_their_order() -> None:
    inbox = WebSocketInbox(1 << 20)
    assert inbox.is_empty
    for message in ("one", b"two", "three"):
        await inbox.put(message)
    assert [await anext(inbox) for _ in range(3)] == ["one", b"two", "three"]
    assert not inbox.is_empty  # the last one is being dealt with
    following = asyncio.create_task(anext(inbox))
    await settled()
    assert inbox.is_empty and not following.done()
    await inbox.put("four")
    assert await following == "four"


async def test_too_many_bytes_make_the_writer_wait() -> None:
    inbox = WebSocketInbox(2 * (OVERHEAD_BYTES + 100))
    await inbox.put("a" * 100)
    await inbox.put("b" * 100)
    third = asyncio.create_task(inbox.put("c"))
    await settled()
    assert not third.done()
    assert await anext(inbox) == "a" * 100
    await settled()
    assert not third.done()  # it is still there until it has been dealt with
    assert await anext(inbox) == "b" * 100
    await settled()
    assert third.done()
    assert await anext(inbox) == "c"
