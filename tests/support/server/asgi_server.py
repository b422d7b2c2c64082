"""Plain ASGI application behind the server's own connection handling, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from antiphon.server.launch import uvloop_run
from antiphon.server.serving.draining_server import server_settings
from antiphon.server.web.http.connection_limits import ConnectionLimits
from antiphon.server.web.http.listener import bind
from support.waiting import wait_until


@contextmanager
def serving_app(app: ASGIApp, limits: ConnectionLimits | None = None) -> Iterator[tuple[int, uvicorn.Server]]:
    """Serve an application until the block ends; yield its port and the uvicorn server."""
    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(server_settings(app, limits or ConnectionLimits(), 2))  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: uvloop_run(lambda: server.serve([listener])), daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server to listen")
    try:
        yield listener.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive()
