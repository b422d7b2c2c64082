"""`create_app`: the server as an ASGI application over an engine client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from antiphon import __version__
from antiphon.errors import AntiphonError
from antiphon.runtime.residency.resident import Resident
from antiphon.server.apis.anthropic import routers as anthropic
from antiphon.server.apis.ollama import routers as ollama
from antiphon.server.apis.openai import routers as openai
from antiphon.server.apis.openai.audio.background import BackgroundTranscriptions
from antiphon.server.apis.ranking import routes as ranking
from antiphon.server.apis.realtime import routers as realtime
from antiphon.server.apis.realtime.services import ServedVoice
from antiphon.server.apis.realtime.shared_input import SharedInput
from antiphon.server.apis.responses import routers as responses
from antiphon.server.apis.responses.store import ResponseStore
from antiphon.server.generation.chat.spoken_reply_store import SpokenReplyStore
from antiphon.server.generation.sound.unreadable import UNREADABLE_HEADERS
from antiphon.server.page import routers as page
from antiphon.server.page.handover import KeyHandover
from antiphon.server.serving.admin import routers as admin
from antiphon.server.serving.admin.activity_hub import ActivityHub
from antiphon.server.serving.downloads import Downloads
from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.stored.batches.storage import open_storage
from antiphon.server.stored.chats import ChatStore
from antiphon.server.stored.conversations import ConversationStore
from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.client_secrets import ClientSecrets
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.bodies.body_size import BodyBudget
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.http.ignored_fields import HEADER as IGNORED_HEADER
from antiphon.server.web.http.openapi import document
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.canonical_requests import CanonicalRequests
from antiphon.server.web.middleware.cors import ApiCors
from antiphon.server.web.middleware.gate import Gate
from antiphon.server.web.middleware.route_table import RouteTable
from antiphon.server.web.middleware.tracing_middleware import TracedRequests
from antiphon.server.web.middleware.websocket_gate import WebSocketGate
from antiphon.server.web.telemetry.logs import log

if TYPE_CHECKING:
    from antiphon.runtime.process.client import EngineClient

ROUTERS = (
    *openai.ROUTERS,
    *responses.ROUTERS,
    *anthropic.ROUTERS,
    *ollama.ROUTERS,
    *ranking.ROUTERS,
    *realtime.ROUTERS,
    *admin.ROUTERS,
    *page.ROUTERS,
)
#: Threads for blocking work: rendering, tokenizing, decoding. Python's default runs out when requests wait in threads.
THREADS = 32


def create_app(
    config: ServerConfig,
    client: EngineClient,
    report: Callable[[Resident], None] | None = None,
    routers: Iterable[APIRouter] = ROUTERS,
) -> FastAPI:
    """Build the server's ASGI application.

    At startup it starts the client and loads the models while `/readyz` answers 503; at shutdown it closes the client.
    `report` is called with each model once it is loaded or has failed.
    """
    serving = Serving(config, client)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        workers = ThreadPoolExecutor(THREADS, "server")
        asyncio.get_running_loop().set_default_executor(workers)
        starting = asyncio.create_task(_start(serving, report))
        try:
            async with open_storage(app, serving):
                yield
        finally:
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            await app.state.transcriptions.close()
            await serving.models.residency.close()
            await client.close()
            if serving.tracing is not None:
                await asyncio.to_thread(serving.tracing.close)

    app = FastAPI(title="Antiphon", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.serving = serving
    app.state.body_budget = BodyBudget(config.limits.held_bytes)
    app.state.spoken_replies = SpokenReplyStore()
    bounds = (config.limits.stored_responses, config.limits.stored_bytes)
    app.state.responses = ResponseStore(*bounds)
    app.state.conversations = ConversationStore(*bounds)
    app.state.stored_chats = ChatStore(*bounds)
    app.state.transcriptions = BackgroundTranscriptions(app, config.limits)
    app.state.voice_services = ServedVoice
    app.state.realtime_input = SharedInput(config.limits.sessions.sessions)
    app.state.activity = ActivityHub(client)
    app.state.downloads = Downloads(config.offline)
    app.state.key_handover = KeyHandover()
    routers = tuple(routers)
    routes = app.state.routes = RouteTable([*app.routes, *(route for router in routers for route in router.routes)])
    for router in routers:
        app.include_router(router)
    _add_middleware(app, serving)
    app.add_exception_handler(HTTPException, _raise)
    app.add_exception_handler(RequestValidationError, _raise_invalid)
    app.openapi = cache(lambda: document(app, routes.routes))  # type: ignore[method-assign]
    return app


def _add_middleware(app: FastAPI, serving: Serving) -> None:
    config, limits = serving.config, serving.config.limits
    hosts = AllowedHosts(config.host, config.allowed_hosts)
    app.state.client_secrets = ClientSecrets()
    admin = app.state.admin_access = AdminAccess(config.admin_keys, hosts)
    rules = Rules(
        admin,
        hosts,
        config.keys,
        app.state.client_secrets,
        per_key=limits.requests_per_key,
        request_seconds=limits.request_seconds,
        logs_text=config.logs_text,
        is_strict=config.is_strict,
        origins=config.cors_origins,
        sessions=limits.sessions,
    )
    for gate in (Gate, WebSocketGate):
        app.add_middleware(
            gate,
            rules=rules,
            requests=serving.requests,
            metrics=serving.metrics,
            is_draining=lambda: serving.is_draining,
        )
    if serving.tracing is not None:
        app.add_middleware(TracedRequests, tracing=serving.tracing)
    app.add_middleware(CanonicalRequests, routes=app.state.routes)
    if config.cors_origins:  # outside the gate: a browser sends its preflight request without a key
        app.add_middleware(
            ApiCors,
            allow_origins=list(config.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],  # browser clients send headers of their own, such as anthropic-version
            expose_headers=["x-request-id", "retry-after", IGNORED_HEADER, *UNREADABLE_HEADERS],
        )


def _raise(request: Request, error: Exception) -> Response:
    """Raise the error again, 404 and 405 with the route table's message; the gate writes all error responses."""
    assert isinstance(error, HTTPException)
    routes: RouteTable = request.app.state.routes
    method, path = request.method, request.scope["path"]
    if error.status_code == 404:
        raise routes.not_found(method, path)
    if error.status_code == 405:
        raise routes.not_allowed(method, path)
    raise error


def _raise_invalid(_: Request, error: Exception) -> Response:
    """Raise the `ApiError` for an invalid path or query parameter."""
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
    await serving.models.keep_loaded()
