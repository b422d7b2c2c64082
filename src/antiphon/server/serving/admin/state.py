"""`GET /v1/models`, `/livez`, `/readyz`, `/health`, `/version` and `/metrics`: models, health and metrics."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from antiphon import __version__
from antiphon.errors import AntiphonError
from antiphon.runtime.process.client import EngineState
from antiphon.server.serving.admin.response_schemas import AnyModelCard, AnyModelsAnswer, HealthAnswer, VersionAnswer
from antiphon.server.serving.model_card import anthropic_card, model_card, task_of
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.error_formats import ANTHROPIC
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import page_between

router = APIRouter()
FIGURES_SECONDS = 1.0


@router.get("/v1/models")
@described(answer=AnyModelsAnswer)
async def list_models(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    after_id: str | None = None,
    before_id: str | None = None,
) -> Response:
    """List the models: in pages with the header `anthropic-version`, as Anthropic's API; otherwise all, as OpenAI's."""
    models = serving_of(request).models
    names = models.names()
    if context_of(request).error_format is not ANTHROPIC:
        listed = [model_card(model, name, models.residency.state_of(model)) for name, model in names.items()]
        return json_response({"object": "list", "data": listed})
    cards = [anthropic_card(model, name) for name, model in names.items() if task_of(model) in (None, "generate")]
    return json_response(page_between(cards, after_id, before_id, limit, "model"))


@router.get("/v1/models/{name:path}")
@described(answer=AnyModelCard)
async def get_model(request: Request, name: str) -> Response:
    models = serving_of(request).models
    model = models.find(name)
    if context_of(request).error_format is ANTHROPIC:
        return json_response(anthropic_card(model, name))
    return json_response(model_card(model, name, models.residency.state_of(model)))


@router.get("/livez")
@described(answer=HealthAnswer)
async def livez() -> Response:
    """Report that the server's process responds."""
    return json_response({"status": "alive"})


@router.post("/ping")
@router.get("/ping")
@router.get("/health")
@router.get("/readyz")
@described(answer=HealthAnswer, reports_unready=True)
async def readyz(request: Request) -> Response:
    """Return 200 when the engine is up and every model to be loaded at start is ready, otherwise 503 with the cause."""
    serving = serving_of(request)
    client = serving.client
    models: dict[str, Any] = {}
    for model in serving.models:
        models[model.name] = serving.models.describe(model)
    if serving.is_draining:
        return json_response({"status": "draining", "cause": None, "models": models}, 503)
    if client.state is not EngineState.READY:
        return json_response({"status": str(client.state), "cause": client.cause, "models": models}, 503)
    if not serving.models.is_ready:
        status, cause = serving.models.status, serving.models.cause
        return json_response({"status": status, "cause": cause, "models": models}, 503)
    answer = {"status": "ready", "cause": None, "models": models}
    warnings = serving.models.warnings
    return json_response(answer | ({"warnings": warnings} if warnings else {}))


@router.get("/version")
@described(answer=VersionAnswer)
async def version() -> Response:
    return json_response({"version": __version__})


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    serving = serving_of(request)
    client = serving.client
    figures: dict[str, Any] = {}
    if client.state is EngineState.READY:
        try:
            figures = await asyncio.wait_for(client.figures(), FIGURES_SECONDS)
        except (AntiphonError, TimeoutError):
            figures = {}
    serving.metrics.engine(client.state is EngineState.READY, client.restarts, figures)
    return Response(serving.metrics.text(), media_type=CONTENT_TYPE_LATEST)
