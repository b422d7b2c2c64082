"""Listeners that do not read: what waits for them is bounded, and they begin again with a snapshot."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.errors import EngineError
from antiphon.runtime.process.messages import Activity
from antiphon.runtime.process.supervisor import EngineState
from antiphon.server.serving.admin import activity_hub
from antiphon.server.serving.admin.activity_hub import COMMENT, MAX_WAITING, ActivityHub


class FakeClient:
    def __init__(self) -> None:
        self.state, self.restarts = EngineState.READY, 0
        self.asked: list[str] = []
        self.num_ends = 0
        self.on_activity: Any = None
        self._changed = asyncio.Event()

    def watch_activity(self, listener: str) -> None:
        if self.state is not EngineState.READY:
            raise EngineError("not ready")
        self.asked.append(listener)

    def unwatch_activity(self) -> None:
        self.num_ends += 1

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    def set(self, state: EngineState, restarts: int = 0) -> None:
        self.state, self.restarts = state, restarts
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def made() -> tuple[FakeClient, ActivityHub]:
    client: Any = FakeClient()
    return client, ActivityHub(client)


def test_reports_before_the_snapshot_are_left_out() -> None:
    async def main() -> None:
        client, hub = made()
        listener = hub.add()
        events = hub.stream(listener)
        client.on_activity(Activity("", b'{"early":1}'))
        client.on_activity(Activity("somebody else", b'{"other":1}'))
        client.on_activity(Activity(listener.id, b'{"all":1}'))
        client.on_activity(Activity("", b'{"news":1}'))
        sent = await anext(events)
        assert sent == (
            b'event: engine\ndata: {"state":"ready","restarts":0}\n\n'
            b'event: snapshot\ndata: {"all":1}\n\nevent: activity\ndata: {"news":1}\n\n'
        )
        hub.remove(listener)
        hub.remove(listener)
        assert client.num_ends == 1 and client.asked == [listener.id]

    asyncio.run(main())


def test_a_slow_listener_loses_what_waits_and_begins_again() -> None:
    async def main() -> None:
        client, hub = made()
        slow, quick = hub.add(), hub.add()
        for listener in (slow, quick):
            client.on_activity(Activity(listener.id, b"{}"))
        quick_events, slow_events = hub.stream(quick), hub.stream(slow)
        await anext(quick_events)
        for number in range(3 * MAX_WAITING):
            client.on_activity(Activity("", b'{"number":%d}' % number))
            await anext(quick_events)
        assert len(slow._waiting) <= MAX_WAITING
        told = await anext(slow_events)
        assert told.startswith(b"event: lost\n") and client.asked[-1] == slow.id
        assert b'"reports":%d' % (MAX_WAITING + 1) in told  # the others came after it needed a snapshot
        client.on_activity(Activity("", b'{"unseen":1}'))
        client.on_activity(Activity(slow.id, b'{"all":1}'))
        assert await anext(slow_events) == b'event: snapshot\ndata: {"all":1}\n\n'
        hub.remove(slow)
        assert not client.num_ends
        hub.remove(quick)
        assert client.num_ends == 1

    asyncio.run(main())


def test_a_quiet_stream_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_hub, "QUIET_SECONDS", 0.0)

    async def main() -> None:
        _, hub = made()
        listener = hub.add()
        events = hub.stream(listener)
        await anext(events)
        assert await anext(events) == COMMENT
        listener.close()
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        hub.remove(listener)

    asyncio.run(main())


def test_an_engine_that_ends_and_comes_back() -> None:
    async def main() -> None:
        client, hub = made()
        listener = hub.add()
        client.on_activity(Activity(listener.id, b"{}"))
        events = hub.stream(listener)
        await anext(events)
        client.set(EngineState.RESTARTING)
        assert b'"restarting"' in await anext(events)
        client.on_activity(Activity("", b'{"of the dead":1}'))
        late = hub.add()  # while there is no engine
        client.set(EngineState.READY, restarts=1)
        assert await anext(events) == b'event: engine\ndata: {"state":"ready","restarts":1}\n\n'
        assert client.asked.count(listener.id) == 2 and client.asked.count(late.id) == 1
        client.on_activity(Activity(listener.id, b'{"new":1}'))
        assert b'snapshot\ndata: {"new":1}' in await anext(events)
        hub.remove(listener)
        hub.remove(late)

    asyncio.run(main())
