"""`/admin/models`: list models with their memory and files, load and unload them."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.errors import AntiphonError, CheckpointError
from antiphon.runtime.loading.adapter_names import SEPARATOR
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.budget import MemoryBudget
from antiphon.runtime.residency.keep_alive import keep_alive_text, parse_keep_alive
from antiphon.runtime.residency.residency import Residency
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.serving.admin.pulls import download_cards, progress_card
from antiphon.server.serving.admin.request_schemas import AdminLoadBody, AdminUnloadBody
from antiphon.server.serving.admin.stored_models import catalog_cards, disk_card, stored_entry
from antiphon.server.serving.downloads import downloads_of
from antiphon.server.serving.failures import engine_unavailable, load_failure
from antiphon.server.serving.model_card import model_card
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.serving.setup.config import LoadOnUse
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response, unless_disconnected
from antiphon.server.web.http.errors import ApiError, ClientDisconnectedError, api_error, invalid
from antiphon.weights.catalog.references import HUB_PREFIX
from antiphon.weights.catalog.store import ModelStore

router = APIRouter(prefix="/admin", include_in_schema=False)
FIGURES_SECONDS = 1.0


@router.get("/models")
async def list_models(request: Request) -> Response:
    """List the models that the server knows, the rest of the catalog and the disk, downloads, and the memory budget."""
    serving = serving_of(request)
    cards = [admin_card(serving, model) for model in serving.models]
    stored = await asyncio.to_thread(_add_disk, cards, ModelStore.default())
    downloads = download_cards(downloads_of(request))
    return json_response({"models": cards, **stored, "downloads": downloads, "memory": await _memory(serving)})


@router.post("/models/load")
async def load(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, AdminLoadBody, serving.config.limits.body_bytes)
    if serving.client.state is not EngineState.READY:
        raise engine_unavailable(serving.client)
    model = _adapter(serving, body.model, body.adapter) if body.adapter else _model(serving, body.model)
    if body.device is not None:
        _set_device(model, body.device)
    if body.keep_alive is not None:
        model.keep_alive = parse_keep_alive(body.keep_alive)
    if body.pinned is not None:
        model.is_pinned = body.pinned
    residency = serving.models.residency
    try:
        await unless_disconnected(request, residency.acquire(model))
    except ClientDisconnectedError:
        if not model.uses:
            await residency.cancel_load(model)
            serving.models.forget_adapter(model)
        raise
    except AntiphonError as error:
        if body.adapter:
            serving.models.forget_adapter(model)
            # The caller chose the path, so a faulty file is the caller's error.
            wrong = isinstance(error, CheckpointError)
            raise (invalid(str(error), "adapter", "invalid_adapter") if wrong else api_error(error)) from error
        raise load_failure(model, error) from error
    residency.release(model)
    return json_response(admin_card(serving, model))


def _set_device(model: Resident, device: str) -> None:
    """Set the device to load the model onto. Raise 409 if it is in use on another device."""
    if model.base is not None:
        raise invalid("an adapter is on the device of its model", "device", "invalid_value")
    is_there = model.loaded is not None and (device == model.device or device == model.loaded.device)
    if not is_there and (model.state is ModelState.READY or model.uses or model.loading is not None):
        where = f" on {model.loaded.device}" if model.loaded is not None else ""
        message = f"model {model.name!r} is loaded{where}; unload it first"
        raise ApiError(409, message, code="model_in_use", param="device")
    model.device = device


def _model(serving: Serving, name: str) -> Resident:
    return serving.models.known(name, LoadOnUse.HUB)


def _adapter(serving: Serving, name: str, path: str) -> Resident:
    base, _, own = name.rpartition(SEPARATOR)
    if not base:
        raise ApiError(
            400, f"an adapter is named model:name; {name!r} names no model", code="invalid_value", param="model"
        )
    return serving.models.add_adapter(base, own, path)


@router.post("/models/unload")
async def unload(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, AdminUnloadBody, serving.config.limits.body_bytes)
    model = serving.models.companion(body.model) or serving.models.find(body.model)
    await serving.models.residency.unload(model, force=bool(body.force))
    serving.models.forget_adapter(model)
    return json_response(admin_card(serving, model))


def admin_card(serving: Serving, model: Resident) -> dict[str, Any]:
    card = model_card(model, model.name, serving.models.residency.state_of(model))
    fetching = model.fetching
    return {
        "name": model.name,
        "aliases": serving.models.aliases(model),
        "reference": model.reference,
        "is_configured": model.is_configured,
        "is_detector": model.is_companion,
        "state": card["state"],
        "task": card["task"],
        "device": serving.models.residency.device_of(model),
        "error": model.error,
        "weight_bytes": card["weight_bytes"],
        "charged_bytes": model.charged_bytes,
        "max_model_len": card["max_model_len"],
        "loading_seconds": model.loading_seconds,
        "load_seconds": None if model.loaded is None else model.loaded.seconds,
        "requests": model.uses,
        "last_use": model.last_use,
        "keep_alive": keep_alive_text(model.keep_alive),
        "expires": model.expires,
        "pinned": model.is_pinned,
        "fetching": None if fetching is None else progress_card(fetching),
    }


def _add_disk(cards: list[dict[str, Any]], store: ModelStore) -> dict[str, Any]:
    """Add `bytes`, `is_here` and `is_stored` to each card. Return cards of the other models, and of the disk."""
    for card in cards:
        entry = stored_entry(card["reference"], store)
        card["bytes"] = None if entry is None else entry.size
        is_path = entry is None and not card["reference"].startswith(HUB_PREFIX)
        card["is_here"] = is_path or (entry is not None and store.is_present(entry))
        card["is_stored"] = not is_path
    held = {card["reference"].lower() for card in cards} | {card["name"] for card in cards}
    return {"catalog": catalog_cards(held, store), "disk": disk_card(store)}


async def _memory(serving: Serving) -> dict[str, Any]:
    residency = serving.models.residency
    devices = [_device_card(residency, budget) for budget in residency.budgets()]
    memory: dict[str, Any] = {
        **{name: value for name, value in devices[0].items() if name != "device"},  # the first device is the CPU
        "engine_resident_bytes": None,
        "devices": devices,
    }
    if serving.client.state is EngineState.READY:
        try:
            figures = await asyncio.wait_for(serving.client.figures(), FIGURES_SECONDS)
        except (AntiphonError, TimeoutError):
            return memory
        memory["engine_resident_bytes"] = figures["process"]["resident_bytes"]
        for card in devices:
            own = figures["devices"].get(card["device"])
            card["kv_lent_bytes"] = None if own is None else own["lent_bytes"]
        memory["kv_lent_bytes"] = devices[0]["kv_lent_bytes"]
    return memory


def _device_card(residency: Residency, budget: MemoryBudget) -> dict[str, Any]:
    weights = residency.charged_bytes(budget.device)
    return {
        "device": budget.device,
        "budget_bytes": budget.total_bytes,
        "kv_bytes": budget.kv_bytes,
        "weight_bytes": weights,
        "free_bytes": budget.room - weights,
        "kv_lent_bytes": None,
    }
