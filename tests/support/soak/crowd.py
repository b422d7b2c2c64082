"""`Crowd`: clients of every kind for a server, at the same time. A kind is a function with the decorator `kind`."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from support.soak.messages import Response, close, parsed


@dataclass
class Crowd:
    """Clients of a server, with counts of their actions and descriptions of wrong answers.

    `expected` maps each request to its answer without concurrent clients.
    """

    host: str
    port: int
    key: str
    expected: dict[object, object] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def connect(self, receive_bytes: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if receive_bytes is None:
            return await asyncio.open_connection(self.host, self.port)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (self.host, self.port))
        return await asyncio.open_connection(sock=connection, limit=receive_bytes)

    async def ask(self, data: bytes) -> Response:
        reader, writer = await self.connect()
        received = b""
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            received = await reader.read(-1)
        await close(writer)
        return parsed(received)

    def check(self, subject: str, holds: bool, found: object) -> None:
        if not holds:
            self.wrong.append(f"{subject}: {str(found)[:500]}")

    def same_as_alone(self, request: object, answer: object) -> None:
        """Record an error if the answer differs from the request's first answer, which the client got alone."""
        wanted = self.expected.setdefault(request, answer)
        self.check(f"{request}", answer == wanted, f"{answer!r} instead of {wanted!r}")

    async def one_of_each(self) -> None:
        """Run every kind of client alone, in sequence."""
        for name, (act, _) in KINDS.items():
            await self._act(name, act, random.Random(name))

    async def all_at_once(self) -> None:
        """Run a client of every kind, all at the same time."""
        async with asyncio.TaskGroup() as group:
            for name, (act, _) in KINDS.items():
                group.create_task(self._act(name, act, random.Random(f"{name} beside others")))

    async def run(self, num_clients: int, seconds: float, seed: int) -> None:
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(num_clients):
                group.create_task(self._client(random.Random(f"{seed} {number}"), deadline))

    async def _client(self, source: random.Random, deadline: float) -> None:
        names, shares = list(KINDS), [share for _, share in KINDS.values()]
        while time.monotonic() < deadline:
            [name] = source.choices(names, shares)
            await self._act(name, KINDS[name][0], source)

    async def _act(self, name: str, act: Act, source: random.Random) -> None:
        try:
            await act(self, source)
        except (AssertionError, ValueError, LookupError, OSError) as error:
            self.wrong.append(f"{name}: {type(error).__name__}: {error}"[:500])
        self.counts[name] += 1


Act = Callable[[Crowd, random.Random], Awaitable[None]]
#: Action of a client and its share among all clients, by name.
KINDS: dict[str, tuple[Act, int]] = {}


def kind(share: int) -> Callable[[Act], Act]:
    """Register a kind of client, named by its function."""

    def add(act: Act) -> Act:
        KINDS[act.__name__] = (act, share)  # type: ignore[attr-defined]
        return act

    return add
