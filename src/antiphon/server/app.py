"""`create_app`: the server as an ASGI application over an engine client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from antiphon import __version__
from antiphon.errors import AntiphonError
from antiphon.runtime.residency import Resident
from antiphon.server import openapi
from antiphon.server.admin import models as admin_models
from antiphon.server.admin import state
from antiphon.server.chat import route as chat
from antiphon.server.http.admin_access import AdminAccess
from antiphon.server.http.errors import invalid
from antiphon.server.http.gate import Gate, Rules
from antiphon.server.responses import routes as responses
from antiphon.server.serving.serving import Serving
from antiphon.server.setup.config import ServerConfig
from antiphon.server.sound import speech, transcriptions
from antiphon.server.sound.unreadable import UNREADABLE_HEADERS
from antiphon.server.telemetry.logs import log
from antiphon.server.telemetry.tracing import TracedRequests
from antiphon.server.text import completions, embeddings, tokenization

if TYPE_CHECKING:
    from antiphon.runtime.client import EngineClient


def create_app(config: ServerConfig, client: EngineClient, report: Callable[[Resident], None] | None = None) -> FastAPI:
    """The application starts the client when it starts, loads the models behind `/readyz`, and closes it at its end.

    `report` is called with each model once it is loaded or has failed.
    """
    serving = Serving(config, client)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        starting = asyncio.create_task(_start(serving, report))
        try:
            yield
        finally:
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            await client.close()
            if serving.tracing is not None:
                await asyncio.to_thread(serving.tracing.close)

    app = FastAPI(title="Antiphon", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.serving = serving
    sound = (transcriptions, speech)
    for module in (chat, completions, responses, embeddings, *sound, tokenization, state, admin_models):
        app.include_router(module.router)
    _add_middleware(app, serving)
    app.add_exception_handler(HTTPException, _raise)
    app.add_exception_handler(RequestValidationError, _raise_invalid)
    app.openapi = cache(lambda: openapi.document(app))  # type: ignore[method-assign]
    return app


def _add_middleware(app: FastAPI, serving: Serving) -> None:
    config, limits = serving.config, serving.config.limits
    admin = AdminAccess(config.admin_keys, config.host, config.admin_hosts)
    rules = Rules(admin, config.keys, limits.requests_per_key, limits.request_seconds, config.logs_text)
    app.add_middleware(
        Gate,
        rules=rules,
        passages=serving.passages,
        metrics=serving.metrics,
        is_draining=lambda: serving.is_draining,
    )
    if serving.tracing is not None:
        app.add_middleware(TracedRequests, tracing=serving.tracing)
    if config.cors_origins:  # outside the gate: a browser asks without a key first
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type", "x-request-id"],
            expose_headers=["x-request-id", "retry-after", *UNREADABLE_HEADERS],
        )


def _raise(_: Request, error: Exception) -> Response:
    """Leave it to the gate, which writes all errors in one shape."""
    raise error


def _raise_invalid(_: Request, error: Exception) -> Response:
    """What a path or a query says wrongly."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    name = str(fault["loc"][-1])
    raise invalid(f"{name}: {fault['msg']}", name)


async def _start(serving: Serving, report: Callable[[Resident], None] | None) -> None:
    try:
        await serving.client.start()
    except AntiphonError as error:
        log("engine did not start", logging.ERROR, cause=str(error))
        return
    await serving.models.load_all(report)
