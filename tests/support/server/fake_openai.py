"""Tiny OpenAI-compatible server with known delays and faults, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Behaviour:
    """Behaviour of the server.

    `faults` are keyed by the request's number, counted from 0 and including the tool's probe.
    """

    first_seconds: float = 0.0
    gap_seconds: float = 0.0
    tokens_per_chunk: int = 1
    faults: dict[int, str] = field(default_factory=dict)  # http_429, drop, stream_error, garbage, silent
    refuses_ignore_eos: bool = False
    tokenize: str | None = "prompt"  # text field of /tokenize; "content" in llama.cpp; None for no /tokenize
    tells_usage: bool = True
    cached_tokens: int | None = None
    closes: bool = False  # close each connection after an answer


@dataclass
class FakeServer:
    url: str
    behaviour: Behaviour
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    connections: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(next(line for line in head.split("\r\n") if line.startswith("Content-Length"))[15:])
                body = json.loads(await reader.readexactly(length))
                path = head.split(" ")[1]
                self.paths.append(path)
                if path.endswith("/tokenize"):
                    self._tokenize(body, writer)
                elif not await self._generate(body, writer, path.endswith("chat/completions")):
                    break
                await writer.drain()
                if self.behaviour.closes:
                    break
        writer.close()

    def _answer(self, writer: asyncio.StreamWriter, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)

    def _tokenize(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Answer with a token per word, and two per word longer than six letters."""
        name = self.behaviour.tokenize
        if name is None:
            self._answer(writer, 404, {"error": "not found"})
            return
        words = body.get(name, "").split()
        self._answer(writer, 200, {"tokens": list(range(sum(1 + (len(word) > 6) for word in words)))})

    async def _generate(self, body: dict[str, Any], writer: asyncio.StreamWriter, is_chat: bool) -> bool:
        behaviour, number = self.behaviour, len(self.bodies)
        self.bodies.append(body)
        fault = behaviour.faults.get(number)
        if behaviour.refuses_ignore_eos and "ignore_eos" in body:
            self._answer(writer, 400, {"error": {"message": "unknown field ignore_eos"}})
            return True
        if fault == "http_429":
            self._answer(writer, 429, {"error": {"message": "too many"}})
            return True
        prompt = body["messages"][0]["content"] if is_chat else body["prompt"]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        if is_chat:
            self._event(writer, {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        await asyncio.sleep(behaviour.first_seconds)
        total = body["max_tokens"]
        for place in range(0, total, behaviour.tokens_per_chunk):
            if place:
                await asyncio.sleep(behaviour.gap_seconds)
            if fault == "silent":
                await asyncio.sleep(3600)
            if fault == "drop" and place:
                return False
            if fault == "stream_error" and place:
                self._event(writer, {"error": {"message": "the engine died", "code": "engine_failed"}})
                break
            if fault == "garbage" and place:
                self._chunk(writer, b"data: {not json}\n\n")
                break
            text = "word " * min(behaviour.tokens_per_chunk, total - place)
            choice = {"delta": {"content": text}} if is_chat else {"text": text}
            self._event(writer, {"choices": [{"index": 0, "finish_reason": None, **choice}], "usage": None})
            await writer.drain()
        else:
            last = {"delta": {}} if is_chat else {"text": ""}
            self._event(writer, {"choices": [{"index": 0, "finish_reason": "length", **last}]})
            if behaviour.tells_usage:
                usage: dict[str, Any] = {"prompt_tokens": len(prompt.split()), "completion_tokens": total}
                if behaviour.cached_tokens is not None:
                    usage["prompt_tokens_details"] = {"cached_tokens": behaviour.cached_tokens}
                self._event(writer, {"choices": [], "usage": usage})
            self._chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        return True

    def _event(self, writer: asyncio.StreamWriter, content: Any) -> None:
        self._chunk(writer, b"data: " + json.dumps(content).encode() + b"\n\n")

    def _chunk(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@contextmanager
def fake_server(behaviour: Behaviour | None = None) -> Iterator[FakeServer]:
    made: dict[str, Any] = {}
    ready = threading.Event()

    async def serve() -> None:
        made["stop"], made["loop"] = asyncio.Event(), asyncio.get_running_loop()
        fake = made["fake"] = FakeServer("", behaviour or Behaviour())
        server = await asyncio.start_server(fake.handle, "127.0.0.1", 0)
        fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await made["stop"].wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield made["fake"]
    finally:
        made["loop"].call_soon_threadsafe(made["stop"].set)
        thread.join(10)
