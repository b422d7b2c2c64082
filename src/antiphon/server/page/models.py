"""`/page/models`: the models that the page offers, what they still have to download, and how to have one prepared.

Unlike `/admin/models`, these routes take the key of the API: a page that was opened from another machine has no admin
key. A request may prepare what any request of the API may load. Of a download, they report bytes only.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon import environment
from antiphon.models.base.companions import END_OF_TURN
from antiphon.runtime.residency.resident import Resident
from antiphon.server.page.preparations import ModelPreparations, total_bytes
from antiphon.server.serving.model_card import model_card
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.schemas import Body, Name

router = APIRouter()


class PrepareBody(Body):
    model: Name


@router.get("/page/models", include_in_schema=False)
async def list_models(request: Request) -> Response:
    """List models in the order in which the page prefers them, and whether the server may download at all."""
    cards = [await _card(request, model) for model in _offered(request)]
    can_download = not (serving_of(request).config.offline or environment.offline())
    return json_response({"data": cards, "can_download": can_download})


@router.post("/page/models/load", include_in_schema=False)
async def load(request: Request) -> Response:
    """Begin to download and load an offered model with its companions; the list reports the progress and the end."""
    body = await read_body(request, PrepareBody, serving_of(request).config.limits.body_bytes)
    model = next((one for one in _offered(request) if one.name == body.model), None)
    if model is None:
        message = f"the page offers no model {body.model[:200]!r}"
        raise ApiError(404, message, code="model_not_found", param="model")
    _preparations(request).start(model)
    return json_response(await _card(request, model), 202)


def _preparations(request: Request) -> ModelPreparations:
    preparations: ModelPreparations = request.app.state.model_preparations
    return preparations


def _offered(request: Request) -> list[Resident]:
    """Return the models that the page may use: those offered to users, and the detector of finished sentences."""
    models = serving_of(request).models
    detector = models.companion(END_OF_TURN)
    return [*models.offered(), detector or Resident(END_OF_TURN, END_OF_TURN, is_companion=True)]


async def _card(request: Request, model: Resident) -> dict[str, Any]:
    """Return the model's card of `/v1/models` with its download."""
    preparations = _preparations(request)
    progress = await preparations.progress(model)
    missing = await preparations.missing(model)
    card = model_card(model, model.name, serving_of(request).models.residency.state_of(model))
    return {
        **card,
        "error": preparations.error(model),
        "missing": list(missing),
        "missing_bytes": total_bytes(missing),
        "is_preparing": preparations.is_running(model),
        "progress": None if progress is None else {"completed_bytes": progress[0], "total_bytes": progress[1]},
    }
