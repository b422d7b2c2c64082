"""Measure the server's own cost per streamed token, from the engine's message to the bytes of every stream.

    python benchmarks/stream_cost.py [--model smollm2-135m] [--streams 256] [--steps 200] [--endpoint completions]

The application, its HTTP protocol and the engine process with its model are real. Requests come from transports without
sockets, and the messages of steps are made here, one after the other, so that neither the network nor a model takes
part: the figure is the processor time of a single thread, and is valid on a busy machine too. A socket write's own cost
in the system comes on top.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from typing import Any, cast

from uvicorn.server import ServerState

from antiphon.bench.serve_bench import run_loop
from antiphon.runtime.calls.events import Accepted, Ended, TextDelta
from antiphon.runtime.calls.tasks import Generate
from antiphon.runtime.process.channel import message_of
from antiphon.runtime.process.client import EngineClient
from antiphon.runtime.process.messages import Deltas, FromEngine, decode_event, encode
from antiphon.server.app import create_app
from antiphon.server.launch import set_up_garbage_collector
from antiphon.server.serving.draining_server import server_settings
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Wire(asyncio.Transport):
    """Far end of a connection, which counts writes and bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.num_writes = self.num_bytes = 0
        self.last = b""

    def write(self, data: Any) -> None:
        self.num_writes += 1
        self.num_bytes += len(data)
        self.last = bytes(data)

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: no write is buffered."""

    def pause_reading(self) -> None:
        """Do nothing: the only input is the request."""

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Streams:
    """Accepted streams, and the messages that an engine would send for them."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self.calls: list[Generate] = []
        process = client._ready_process()
        process.send = self._take  # type: ignore[method-assign]

    def _take(self, command: Any) -> None:
        if isinstance(command, Generate):
            self.calls.append(command)
            self._client._take(cast(FromEngine, message_of(command.id, Accepted())))

    async def step(self, text: str) -> float:
        """Send a token to every stream; return processor seconds until every stream has written it."""
        data = encode(Deltas([TextDelta(f"{call.id}/0", text, [7]) for call in self.calls]))
        begun = time.thread_time()
        self._client._take(decode_event(data))
        for _ in range(4):  # readers run in the first iteration; the others show that no work is left
            await asyncio.sleep(0)
        return time.thread_time() - begun

    async def end(self) -> None:
        for call in self.calls:
            ended = Ended(f"{call.id}/0", "length", len(call.prompt), 1, 0)
            self._client._take(cast(FromEngine, message_of(ended.id, ended)))
        self.calls.clear()


def request(endpoint: str, model: str) -> bytes:
    body: dict[str, Any] = {"model": model, "max_tokens": 1000, "stream": True}
    if endpoint == "chat":
        body["messages"] = [{"role": "user", "content": "Hello"}]
    else:
        body["prompt"] = [100, 101, 102]
    content = json.dumps(body).encode()
    head = f"POST {PATHS[endpoint]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def until(condition: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the streams did not begin")
        await asyncio.sleep(0.002)


async def measure(arguments: argparse.Namespace) -> None:
    spec = ModelSpec.of(arguments.model)
    config = ServerConfig(models=(spec,))
    client = EngineClient({}, offline=True)
    app = create_app(config, client)
    settings = server_settings(app, config.connections, 1)
    settings.load()
    async with app.router.lifespan_context(app):
        await until(lambda: spec.name in client.models and app.state.serving.models.find(spec.name).state == "ready")
        set_up_garbage_collector()
        streams = Streams(client)
        wires = []
        for number in range(arguments.streams):
            protocol = cast(Any, settings.http_protocol_class)(settings, ServerState(), {})
            wire = Wire()
            protocol.connection_made(wire)
            protocol.data_received(request(arguments.endpoint, spec.name))
            wires.append(wire)
            await until(lambda count=number + 1: len(streams.calls) == count)
        await until(lambda: all(wire.num_writes >= 1 for wire in wires))
        for _ in range(20):
            await streams.step(" word")
        written = sum(wire.num_writes for wire in wires), sum(wire.num_bytes for wire in wires)
        seconds = [await streams.step(" word") for _ in range(arguments.steps)]
        writes = sum(wire.num_writes for wire in wires) - written[0]
        num_bytes = sum(wire.num_bytes for wire in wires) - written[1]
        await streams.end()
        await until(lambda: all(b"0\r\n\r\n" in wire.last for wire in wires))
    tokens = arguments.steps * arguments.streams
    scale = 1e6 / arguments.streams
    print(f"{arguments.endpoint}, {arguments.streams} streams, {arguments.steps} steps")
    print(f"processor time  {statistics.median(seconds) * scale:8.2f} µs a token, p50 of the steps")
    print(f"                {statistics.fmean(seconds) * scale:8.2f} µs a token, mean (garbage collector included)")
    print(f"writes          {writes / tokens:8.2f} a token, {num_bytes / tokens:.0f} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--endpoint", choices=list(PATHS), default="completions")
    gc.collect()
    run_loop(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
