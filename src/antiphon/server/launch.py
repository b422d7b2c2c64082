"""Running a server: one socket, its address reported when it listens, a graceful end on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn

from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.runtime.residency import Resident
from antiphon.server.app import create_app
from antiphon.server.http.errors import unavailable
from antiphon.server.http.keys import KeyRing
from antiphon.server.serving.serving import Serving
from antiphon.server.setup.config import ServerConfig
from antiphon.server.setup.run_file import LocalServer, RunFileError, is_loopback, new_admin_token, published
from antiphon.server.telemetry.logs import log

SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Time for requests that are ended to send their error.
LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True)
class TLSFiles:
    """A certificate with its chain, and its key, as PEM files."""

    certificate: Path
    key: Path

    def check(self) -> None:
        """An unreadable or ill-matched pair is an error before anything starts."""
        import ssl

        for path in (self.certificate, self.key):
            if not path.is_file():
                raise InvalidRequestError(f"there is no TLS file {path}")
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = f"the TLS files {self.certificate} and {self.key} cannot be used: {error.strerror or error}"
            raise InvalidRequestError(message) from error


class DrainingServer(uvicorn.Server):
    """On the first signal new requests are rejected and running ones may finish; on the second they are ended.

    The third does not wait for the engine either.
    """

    def __init__(self, config: uvicorn.Config, serving: Serving, grace_seconds: float) -> None:
        super().__init__(config)
        self._serving = serving
        self._grace_seconds = grace_seconds
        self._draining: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    async def main_loop(self) -> None:
        """Woken by the end, and once a second for the date in answers; the base class looks ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ending.wait()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.drain)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def drain(self) -> None:
        if self._draining is not None:
            self.force_exit = self.should_exit
            self._end_requests()
            self.end()
            return
        self._serving.is_draining = True
        log(
            "shutting down: waiting for running requests",
            running=len(self._serving.passages),
            grace_seconds=self._grace_seconds,
        )
        self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        """The server keeps listening meanwhile, so that new requests get a 503 with `Retry-After`."""
        passages = self._serving.passages
        if not await passages.until_idle(self._grace_seconds):
            log("shutting down: ending requests that are still running", running=len(passages))
            self._end_requests()
            await passages.until_idle(LAST_WORDS_SECONDS)
        self.end()

    def _end_requests(self) -> None:
        for passage in self._serving.passages:
            passage.end_with(unavailable("the server is shutting down", "shutting_down"))


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


def address(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def run_server(
    config: ServerConfig,
    engine_options: dict[str, Any],
    listener: socket.socket,
    *,
    grace_seconds: float,
    on_listening: Callable[[str], None],
    on_model: Callable[[Resident], None] | None = None,
    tls: TLSFiles | None = None,
    watchdog_seconds: float = 120.0,
) -> None:
    """Serve until a signal comes and the running requests are done, or `grace_seconds` are over.

    On a loopback address the server is listed for the commands of the same user, with an admin token of its own unless
    it has admin keys already. Raises `MemoryBudgetError` if none of the models to be loaded at start can ever fit.
    """
    is_local = is_loopback(listener.getsockname()[0])
    token = new_admin_token() if is_local and config.admin_keys is None else None
    if token is not None:
        config = replace(config, admin_keys=KeyRing([token]))
    files = contextlib.ExitStack()

    async def serve() -> None:
        from antiphon.runtime.client import EngineClient

        failure: AntiphonError | None = None

        def report(model: Resident) -> None:
            nonlocal failure
            if on_model is not None:
                on_model(model)
            failure = app.state.serving.models.never_fits
            if failure is not None:
                server.end()

        client = EngineClient(engine_options, offline=config.offline, watchdog_seconds=watchdog_seconds)
        app = create_app(config, client, report)
        settings = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.key,
        )
        server = DrainingServer(settings, app.state.serving, grace_seconds)
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            # What is loaded by now stays: the collector need not look at it again with every few hundred requests.
            gc.collect()
            gc.freeze()
            url = address(listener, "http" if tls is None else "https")
            if is_local:
                try:
                    files.enter_context(published(LocalServer(url, os.getpid(), token)))
                except RunFileError as error:
                    log("not listed for `antiphon ps`", logging.WARNING, cause=str(error))
            on_listening(url)
        await serving
        if failure is not None:
            raise failure

    started = time.monotonic()
    with contextlib.closing(listener), files:
        uvloop_run(serve)
    log("server stopped", seconds=round(time.monotonic() - started, 1))


def uvloop_run(main: Callable[[], Any]) -> None:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        asyncio.run(main())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
