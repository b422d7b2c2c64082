"""Clients of every sort for one server: patient ones, impatient ones, slow ones, and some that send garbage."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

PATIENT, CANCELLING, SLOW, GARBAGE, DROPPING = "patient", "cancelling", "slow", "garbage", "dropping"
#: Of a hundred.
SHARES = {PATIENT: 41, CANCELLING: 33, SLOW: 10, GARBAGE: 9, DROPPING: 7}
PATH = "/v1/completions"


@dataclass(frozen=True)
class Question:
    prompt: str
    max_tokens: int


@dataclass
class Answer:
    """What a stream said until its end."""

    text: str = ""
    finish_reason: str | None = None
    completion_tokens: int = -1
    is_done: bool = False
    error: Any = None


def request_bytes(body: bytes, path: str = PATH, length: int | None = None) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def question_body(model: str, question: Question, salt: str = "") -> bytes:
    fields = {"temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    body = {"model": model, "prompt": question.prompt, "max_tokens": question.max_tokens, **fields}
    return orjson.dumps(body | ({"cache_salt": salt} if salt else {}))


def dechunked(data: bytes) -> bytes:
    """The body of a whole chunked answer; one that was cut off fails."""
    _, _, rest = data.partition(b"\r\n\r\n")
    parts = []
    while True:
        size, found, rest = rest.partition(b"\r\n")
        assert found, "the answer was cut off"
        count = int(size, 16)
        if not count:
            return b"".join(parts)
        parts.append(rest[:count])
        assert rest[count : count + 2] == b"\r\n", "the answer was cut off"
        rest = rest[count + 2 :]


def read_answer(data: bytes) -> Answer:
    assert data.startswith(b"HTTP/1.1 200"), data[:300]
    answer = Answer()
    for line in dechunked(data).split(b"\n\n"):
        if line == b"data: [DONE]":
            answer.is_done = True
        elif line:
            chunk = orjson.loads(line.removeprefix(b"data: "))
            answer.error = answer.error or chunk.get("error")
            for choice in chunk.get("choices", ()):
                answer.text += choice["text"]
                answer.finish_reason = choice["finish_reason"] or answer.finish_reason
            if chunk.get("usage"):
                answer.completion_tokens = chunk["usage"]["completion_tokens"]
    return answer


@dataclass
class Soak:
    """`expected` are the answers that each question gets alone."""

    host: str
    port: int
    model: str
    expected: dict[Question, str]
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

    async def run(self, num_clients: int, seconds: float, seed: int) -> None:
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(num_clients):
                group.create_task(self._client(random.Random(f"{seed} {number}"), deadline))

    async def _client(self, source: random.Random, deadline: float) -> None:
        acts = {
            PATIENT: self._patient,
            CANCELLING: self._cancelling,
            SLOW: self._slow,
            GARBAGE: self._garbage,
            DROPPING: self._dropping,
        }
        while time.monotonic() < deadline:
            [kind] = source.choices(list(SHARES), list(SHARES.values()))
            await acts[kind](source)
            self.counts[kind] += 1

    def _pick(self, source: random.Random) -> tuple[Question, bytes]:
        """A salt of its own now and then, so that the prompt is computed and not found in the cache."""
        question = source.choice(list(self.expected))
        salt = str(source.random()) if source.random() < 0.7 else ""
        return question, request_bytes(question_body(self.model, question, salt))

    def _check(self, kind: str, question: Question, data: bytes) -> None:
        try:
            answer = read_answer(data)
            assert answer.error is None, answer.error
            assert answer.is_done and answer.finish_reason == "length", answer
            assert answer.completion_tokens == question.max_tokens, answer
            assert answer.text == self.expected[question], (answer.text, self.expected[question])
        except (AssertionError, ValueError) as error:
            self.wrong.append(f"{kind}: {question.prompt!r}: {error}")

    async def _patient(self, source: random.Random) -> None:
        question, data = self._pick(source)
        reader, writer = await self.connect()
        writer.write(data)
        self._check(PATIENT, question, await reader.read(-1))
        await close(writer)

    async def _slow(self, source: random.Random) -> None:
        """Small sips with pauses, from a socket that holds little."""
        question, data = self._pick(source)
        reader, writer = await self.connect(receive_bytes=2048)
        writer.write(data)
        parts = []
        while part := await reader.read(source.randint(1, 700)):
            parts.append(part)
            await asyncio.sleep(source.random() * 0.05)
        self._check(SLOW, question, b"".join(parts))
        await close(writer)

    async def _cancelling(self, source: random.Random) -> None:
        """Goes away in the middle of the answer, politely or not."""
        _, data = self._pick(source)
        reader, writer = await self.connect()
        writer.write(data)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(source.random() * 2):
                for _ in range(source.randint(0, 12)):
                    await reader.read(400)
        if source.random() < 0.5:
            writer.transport.abort()
        await close(writer)

    async def _dropping(self, source: random.Random) -> None:
        """Goes away before an answer, perhaps before the question is complete."""
        _, data = self._pick(source)
        _, writer = await self.connect()
        writer.write(data if source.random() < 0.5 else data[: source.randrange(len(data))])
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        await asyncio.sleep(source.random() * 0.05)
        writer.transport.abort()
        await close(writer)

    async def _garbage(self, source: random.Random) -> None:
        """Is told so, or cut off, and harms nobody."""
        question, _ = self._pick(source)
        body = question_body(self.model, question)
        noise = bytes(source.randrange(256) for _ in range(200))
        kind, sent = source.choice(
            [
                ("not JSON", request_bytes(noise)),
                ("cut JSON", request_bytes(body[:-5])),
                ("unknown field", request_bytes(body[:-1] + b',"nonsense":1}')),
                ("wrong type", request_bytes(body.replace(b'"max_tokens":', b'"max_tokens":"x","n":'))),
                ("unknown model", request_bytes(question_body("absent-model", question))),
                ("unknown path", request_bytes(body, "/v1/absent")),
                ("not HTTP", noise + b"\r\n\r\n"),
                ("bad length", request_bytes(body).replace(b"Content-Length: ", b"Content-Length: -")),
            ]
        )
        reader, writer = await self.connect()
        writer.write(sent)
        answer = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                answer = await reader.read(-1)
        status = answer.split(b" ")[1:2]
        if status and not status[0].startswith(b"4"):
            self.wrong.append(f"{GARBAGE}, {kind}: {answer[:300]!r}")
        if not status and kind not in ("not HTTP", "bad length"):
            self.wrong.append(f"{GARBAGE}, {kind}: no answer")
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
