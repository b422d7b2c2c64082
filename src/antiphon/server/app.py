"""`create_app`: the server as an ASGI application over an engine client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from antiphon import __version__
from antiphon.errors import AntiphonError
from antiphon.server import chat, completions, embeddings, openapi, state_routes, text_routes
from antiphon.server.config import ServerConfig
from antiphon.server.gate import Gate
from antiphon.server.logs import log
from antiphon.server.models import ServedModel
from antiphon.server.serving import Serving

if TYPE_CHECKING:
    from antiphon.runtime.client import EngineClient


def create_app(
    config: ServerConfig, client: EngineClient, report: Callable[[ServedModel], None] | None = None
) -> FastAPI:
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

    app = FastAPI(title="Antiphon", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.serving = serving
    for module in (chat, completions, embeddings, text_routes, state_routes):
        app.include_router(module.router)
    app.add_middleware(Gate, keys=config.keys, metrics=serving.metrics, is_draining=lambda: serving.is_draining)
    app.add_exception_handler(HTTPException, _raise)
    app.openapi = cache(lambda: openapi.document(app))  # type: ignore[method-assign]
    return app


def _raise(_: Request, error: Exception) -> Response:
    """Leave it to the gate, which writes all errors in one shape."""
    raise error


async def _start(serving: Serving, report: Callable[[ServedModel], None] | None) -> None:
    try:
        await serving.client.start()
    except AntiphonError as error:
        log("engine did not start", logging.ERROR, cause=str(error))
        return
    await serving.models.load_all(report)
