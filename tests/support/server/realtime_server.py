"""Server of `/v1/realtime` alone over fake voices, and a client that checks the order of the events it reads."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fastapi import FastAPI
from websockets.asyncio.client import ClientConnection, connect

from antiphon.audio.pcm import to_s16
from antiphon.runtime.process.client import EngineClient
from antiphon.server.apis.realtime import route
from antiphon.server.apis.realtime.shared_input import SharedInput
from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup.config import Limits, ServerConfig
from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import SessionLimits
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.tracing_middleware import TracedRequests
from antiphon.server.web.middleware.websocket_gate import WebSocketGate
from support.realtime_order import Event, RealtimeOrder
from support.server.asgi_server import serving_app
from support.server.fake_voice import FakeVoice
from support.waiting import PATIENCE_SECONDS


@dataclass
class FakeRealtime:
    """Running server with fake voices.

    `voices` lists those of all sessions; `prepare` is called with each new voice.
    """

    serving: Serving
    port: int = 0
    voices: list[FakeVoice] = field(default_factory=list)
    prepare: Callable[[FakeVoice], None] = lambda voice: None
    loop: asyncio.AbstractEventLoop | None = None

    def new_voice(self, serving: Serving, session_id: str) -> FakeVoice:
        self.loop = asyncio.get_running_loop()
        self.voices.append(FakeVoice())
        self.prepare(self.voices[-1])
        return self.voices[-1]

    @property
    def voice(self) -> FakeVoice:
        return self.voices[-1]

    def call(self, work: Callable[[], Any]) -> None:
        """Run `work` in the server's event loop."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(work)

    @asynccontextmanager
    async def session(self, query: str = "?model=gpt-realtime", **options: Any) -> AsyncIterator[Session]:
        url = f"ws://127.0.0.1:{self.port}/v1/realtime{query}"
        async with connect(url, max_size=None, open_timeout=PATIENCE_SECONDS, **options) as socket:
            session = Session(socket)
            await session.until("session.created")
            yield session


class Session:
    """Client of a session that checks every event it reads."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.order = RealtimeOrder()

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def read(self) -> Event:
        try:
            event: Event = json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE_SECONDS))
        except TimeoutError:
            raise AssertionError(f"no event came after {self.order.kinds[-20:]}") from None
        self.order.take(event)
        return event

    async def until(self, kind: str) -> Event:
        """Read events up to the next of this type, and return it."""
        while (event := await self.read())["type"] != kind:
            pass
        return event

    async def say(self, milliseconds: int, level: float = 0.5) -> None:
        """Send a tone as PCM at 24 kHz; silence if `level` is 0."""
        tone = level * np.sin(2 * np.pi * 440 * np.arange(24 * milliseconds) / 24_000)
        data = to_s16(tone.astype(np.float32)).tobytes()
        await self.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    async def turn(self) -> None:
        """Send 300 ms of sound and 400 ms of silence, which make a turn."""
        await self.say(300)
        await self.say(400, 0.0)


@contextmanager
def fake_realtime(
    sessions: SessionLimits | None = None,
    otlp_endpoint: str | None = None,
    keys: KeyRing | None = None,
    per_key: int | None = None,
    input: SharedInput | None = None,
) -> Iterator[FakeRealtime]:
    limits = Limits(sessions=sessions or SessionLimits(), requests_per_key=per_key)
    config = ServerConfig(limits=limits, offline=True, otlp_endpoint=otlp_endpoint, keys=keys)
    made = FakeRealtime(Serving(config, EngineClient({}, offline=True)))
    app = FastAPI()
    app.state.serving = made.serving
    app.state.voice_services = made.new_voice
    app.state.realtime_input = input or SharedInput(limits.sessions.sessions)
    app.include_router(route.router)
    hosts = AllowedHosts("127.0.0.1")
    app.add_middleware(
        WebSocketGate,
        rules=Rules(AdminAccess(None, hosts), hosts, keys, per_key, sessions=config.limits.sessions),
        requests=made.serving.requests,
        metrics=made.serving.metrics,
        is_draining=lambda: made.serving.is_draining,
    )
    if made.serving.tracing is not None:
        app.add_middleware(TracedRequests, tracing=made.serving.tracing)
    with serving_app(app) as (port, _):
        made.port = port
        yield made
