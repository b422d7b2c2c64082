"""`/admin/models`: listing models with their memory, loading, unloading and downloading them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.errors import AntiphonError, CheckpointError
from antiphon.runtime.loading.adapter_names import SEPARATOR
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.budget import MemoryBudget
from antiphon.runtime.residency.fetching import fetch_model
from antiphon.runtime.residency.keep_alive import keep_alive_text, parse_keep_alive
from antiphon.runtime.residency.residency import Residency
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.admin.request_schemas import AdminLoadBody, AdminPullBody, AdminUnloadBody
from antiphon.server.bodies.json_body import read_body
from antiphon.server.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.http.errors import ApiError, api_error, invalid
from antiphon.server.http.events import DONE, event
from antiphon.server.serving.failures import engine_unavailable, load_failure
from antiphon.server.serving.model_card import model_card
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.setup.config import LoadOnUse
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.fetch import FetchProgress
from antiphon.weights.catalog.resolve import HUB_REFERENCE, ResolvedModel
from antiphon.weights.catalog.store import ModelStore

router = APIRouter(prefix="/admin", include_in_schema=False)
FIGURES_SECONDS = 1.0
PROGRESS_SECONDS = 0.2


@router.get("/models")
async def list_models(request: Request) -> Response:
    """The models that are known to the server, the other models of the catalog, and the memory budget."""
    serving = serving_of(request)
    cards = [admin_card(serving, model) for model in serving.models]
    known = await asyncio.to_thread(_catalog_cards, {card["name"] for card in cards})
    return json_response({"models": cards, "catalog": known, "memory": await _memory(serving)})


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
    except AntiphonError as error:
        if body.adapter:
            serving.models.forget_adapter(model)
            # The path is the caller's, and so is what is wrong with the file.
            wrong = isinstance(error, CheckpointError)
            raise (invalid(str(error), "adapter", "invalid_adapter") if wrong else api_error(error)) from error
        raise load_failure(model, error) from error
    residency.release(model)
    return json_response(admin_card(serving, model))


def _set_device(model: Resident, device: str) -> None:
    """Have the model loaded onto a device; one that is loaded must be there already."""
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


@router.post("/models/pull")
async def pull(request: Request) -> Response:
    """Download a model of the catalog or the hub without loading it."""
    serving = serving_of(request)
    body = await read_body(request, AdminPullBody, serving.config.limits.body_bytes)
    if body.model.lower() not in catalog() and HUB_REFERENCE.fullmatch(body.model) is None:
        serving.models.find(body.model)  # raises for an unknown name
        message = f"model {body.model!r} is loaded from a path on the server; there is nothing to download"
        raise ApiError(400, message, code="invalid_value")
    if body.stream is False:
        resolved = await unless_disconnected(request, fetch_model(body.model, serving.config.offline, lambda _: None))
        return json_response(await asyncio.to_thread(_pulled, resolved))
    return EventStream(_pull_events(body.model, serving.config.offline), lambda: None)


async def _pull_events(reference: str, offline: bool) -> AsyncGenerator[bytes]:
    """The progress of a download, a few times a second. The download continues if the client disconnects."""
    latest: FetchProgress | None = None
    sent: FetchProgress | None = None
    notices: list[FetchProgress] = []

    def note(update: FetchProgress) -> None:
        nonlocal latest
        if update.is_notice:
            notices.append(update)
        else:
            latest = update

    fetching = asyncio.create_task(fetch_model(reference, offline, note))
    try:
        while not fetching.done():
            await asyncio.wait([fetching], timeout=PROGRESS_SECONDS)
            while notices:
                yield event(_progress_card(notices.pop(0)))
            if latest is not None and latest != sent:
                sent = latest
                yield event(_progress_card(sent))
        yield event(await asyncio.to_thread(_pulled, await fetching))
        yield DONE
    except AntiphonError as error:
        yield event(api_error(error).body())
    finally:
        fetching.add_done_callback(lambda done: done.cancelled() or done.exception())


def _progress_card(update: FetchProgress) -> dict[str, Any]:
    return {"status": update.activity, "completed_bytes": update.done, "total_bytes": update.total}


def _pulled(resolved: ResolvedModel) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in resolved.files.values())
    return {"status": "success", "model": resolved.name, "bytes": size}


def admin_card(serving: Serving, model: Resident) -> dict[str, Any]:
    card = model_card(model, model.name, serving.models.residency.state_of(model))
    fetching = model.fetching
    return {
        "name": model.name,
        "aliases": serving.models.aliases(model),
        "reference": model.reference,
        "is_configured": model.is_configured,
        "state": card["state"],
        "task": card["task"],
        "device": serving.models.residency.device_of(model),
        "error": model.error,
        "weight_bytes": card["weight_bytes"],
        "charged_bytes": model.charged_bytes,
        "max_model_len": card["max_model_len"],
        "load_seconds": None if model.loaded is None else model.loaded.seconds,
        "requests": model.uses,
        "last_use": model.last_use,
        "keep_alive": keep_alive_text(model.keep_alive),
        "expires": model.expires,
        "pinned": model.is_pinned,
        "fetching": None if fetching is None else _progress_card(fetching),
    }


def _catalog_cards(held: set[str]) -> list[dict[str, Any]]:
    store = ModelStore.default()
    return [
        {"name": name, "task": entry.task, "bytes": entry.size, "is_here": store.is_present(entry)}
        for name, entry in catalog().items()
        if name not in held
    ]


async def _memory(serving: Serving) -> dict[str, Any]:
    residency = serving.models.residency
    devices = [_device_card(residency, budget) for budget in residency.budgets()]
    memory: dict[str, Any] = {
        **{name: value for name, value in devices[0].items() if name != "device"},  # those of the CPU
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
