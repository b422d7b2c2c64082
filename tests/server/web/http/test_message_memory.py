"""Memory of large messages: granted in order, given back, and taken from those that are slow."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.server.web.http import message_memory
from antiphon.server.web.http.message_memory import MessageLease, MessageMemory

pytestmark = pytest.mark.asyncio


class Messages:
    """Messages of ten bytes at most, in a memory of twenty; `granted` and `revoked` have the numbers of some."""

    def __init__(self) -> None:
        self.memory = MessageMemory(20)
        self.granted: list[int] = []
        self.revoked: list[int] = []
        self.num_messages = 0

    def ask(self) -> MessageLease:
        number = self.num_messages
        self.num_messages += 1
        return self.memory.ask(10, lambda: self.granted.append(number), lambda: self.revoked.append(number))


async def test_memory_is_granted_in_order() -> None:
    messages = Messages()
    leases = [messages.ask() for _ in range(5)]
    assert [lease.is_granted for lease in leases] == [True, True, False, False, False] and not messages.granted
    leases[1].release()
    assert messages.granted == [2]
    leases[3].release()  # one that waits
    leases[0].complete(4)
    leases[2].complete(6)
    assert messages.granted == [2, 4] and messages.memory.num_bytes == 20
    for lease in leases:
        lease.release()
        lease.release()
    assert messages.memory.num_bytes == 0


async def test_a_message_larger_than_the_memory_passes_alone() -> None:
    memory = MessageMemory(5)
    first, second = (memory.ask(10, lambda: None, lambda: None) for _ in range(2))
    assert first.is_granted and not second.is_granted
    first.release()
    assert second.is_granted


async def test_slow_messages_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = Messages()
    complete, slow, waiting = (messages.ask() for _ in range(3))
    complete.complete(10)
    messages.memory.revoke_slow()
    assert not messages.revoked  # it has only begun
    monkeypatch.setattr(message_memory, "START_SECONDS", 0.0)
    slow.num_arrived = 1 << 40
    messages.memory.revoke_slow()
    assert not messages.revoked
    slow.num_arrived = 0
    await asyncio.sleep(0.001)
    messages.memory.revoke_slow()
    assert messages.revoked == [1] and waiting.is_granted and not complete.is_released
