"""`run_server`: start a server, report its address, and serve until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.runtime.residency.resident import Resident
from antiphon.server.apis.wyoming.listener import WyomingListener
from antiphon.server.app import create_app
from antiphon.server.page.address import PageAddress
from antiphon.server.page.handover import KeyHandover
from antiphon.server.serving.draining_server import DrainingServer, server_settings
from antiphon.server.serving.setup import systemd
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.serving.setup.run_file import LocalServer, RunFileError, new_admin_token, published
from antiphon.server.serving.setup.tls import TLSFiles
from antiphon.server.web.access.hosts import is_loopback
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.listener import address, held_localhost, raise_file_limit
from antiphon.server.web.telemetry.logs import log

#: Seconds for slow clients to read buffered data after the last response.
FLUSH_SECONDS = 5
#: New objects before the garbage collector looks for cycles. A step of hundreds of streams makes several thousand,
#: and nearly all are freed without the collector.
GC_OBJECTS = 50_000


def run_server(
    config: ServerConfig,
    engine_options: dict[str, Any],
    listener: socket.socket,
    *,
    grace_seconds: float,
    on_listening: Callable[[str], None],
    on_model: Callable[[Resident], None] | None = None,
    on_page: Callable[[PageAddress], None] | None = None,
    tls: TLSFiles | None = None,
    watchdog_seconds: float = 120.0,
    wyoming: WyomingListener | None = None,
) -> None:
    """Serve until a signal, then give running requests `grace_seconds` to finish.

    On a loopback address, list the server for commands of the same user, with a new admin token if no admin keys are
    configured; the web page can get that token, and `on_page` receives the page's address, with a ticket for it. Raise
    `MemoryBudgetError` if none of the models to be loaded at start can ever fit, and `EngineError` if the engine
    process cannot be started, so that a supervisor can act.
    """
    is_local = is_loopback(listener.getsockname()[0])
    token = new_admin_token() if is_local and config.admin_keys is None else None
    if token is not None:
        config = replace(config, admin_keys=KeyRing([token]))
    raise_file_limit(config.connections.connections)
    files = contextlib.ExitStack()

    async def serve() -> None:
        from antiphon.runtime.process.client import EngineClient

        failure: AntiphonError | None = None

        def report(model: Resident) -> None:
            nonlocal failure
            if on_model is not None:
                on_model(model)
            failure = app.state.serving.models.never_fits
            if failure is not None:
                server.end()

        async def end_if_engine_fails() -> None:
            nonlocal failure
            failure = await client.wait_for_failure()
            server.end()

        running = contextlib.AsyncExitStack()
        client = EngineClient(engine_options, offline=config.offline, watchdog_seconds=watchdog_seconds)
        app = create_app(config, client, report)
        if token is not None:
            app.state.key_handover = KeyHandover(token, files.enter_context(held_localhost(listener)))
        settings = server_settings(
            app,
            config.connections,
            FLUSH_SECONDS,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.key,
        )
        server = DrainingServer(settings, app.state.serving, grace_seconds)
        url = address(listener, "http" if tls is None else "https")
        serving = asyncio.create_task(server.serve([listener]))
        watching = asyncio.create_task(end_if_engine_fails())
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            set_up_garbage_collector()
            if is_local:
                try:
                    files.enter_context(published(LocalServer(url, os.getpid(), token)))
                except RunFileError as error:
                    log("not listed for `antiphon ps`", logging.WARNING, cause=str(error))
            on_listening(url)
            if on_page is not None:
                on_page(PageAddress.of(url, app.state.key_handover.issue()))
            if wyoming is not None:
                await running.enter_async_context(wyoming.serving(app.state.serving))
            systemd.notify(systemd.READY)
        async with running:
            await serving
        watching.cancel()
        if failure is not None:
            raise failure

    started = time.monotonic()
    with contextlib.closing(listener), files:
        uvloop_run(serve)
    log("server stopped", seconds=round(time.monotonic() - started, 1))


def set_up_garbage_collector() -> None:
    """Exempt all existing objects from garbage collection, and collect new ones less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_OBJECTS)


def uvloop_run(main: Callable[[], Any]) -> None:
    try:
        import uvloop
    except ImportError:  # not available on every platform
        asyncio.run(main())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
