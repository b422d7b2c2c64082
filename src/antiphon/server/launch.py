"""Running a server: one socket, its address told when it listens, a graceful end on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from antiphon.errors import InvalidRequestError
from antiphon.server.app import create_app
from antiphon.server.config import ServerConfig
from antiphon.server.logs import log
from antiphon.server.models import ServedModel

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class DrainingServer(uvicorn.Server):
    """On the first signal no new request is taken and running ones may finish; on the second they are cut off."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._drain)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _drain(self) -> None:
        if self.should_exit:
            self.force_exit = True
        self.config.app.state.serving.is_draining = True  # type: ignore[union-attr]
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening address; one that cannot be had is an error with its name."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidRequestError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return listener


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(
    config: ServerConfig,
    engine_options: dict[str, Any],
    listener: socket.socket,
    *,
    grace_seconds: float,
    on_listening: Callable[[str], None],
    on_model: Callable[[ServedModel], None] | None = None,
) -> None:
    """Serve until a signal comes and the running requests are done, or `grace_seconds` are over."""

    async def serve() -> None:
        from antiphon.runtime.client import EngineClient

        client = EngineClient(engine_options, offline=config.offline)
        settings = uvicorn.Config(
            create_app(config, client, on_model),
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        server = DrainingServer(settings)
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            on_listening(address(listener))
        await serving

    started = time.monotonic()
    with contextlib.closing(listener):
        uvloop_run(serve)
    log("stopped", seconds=round(time.monotonic() - started, 1))


def uvloop_run(main: Callable[[], Any]) -> None:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        asyncio.run(main())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
