"""`POST /admin/models/delete`, and cards of the models on this machine's disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.serving.admin.pulls import stored_name
from antiphon.server.serving.admin.request_schemas import AdminDeleteBody
from antiphon.server.serving.downloads import downloads_of
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError
from antiphon.weights.catalog.catalog import ModelEntry, catalog
from antiphon.weights.catalog.references import HUB_PREFIX
from antiphon.weights.catalog.store import ModelStore, Removal

router = APIRouter(prefix="/admin", include_in_schema=False)


@router.post("/models/delete")
async def delete(request: Request) -> Response:
    """Delete a model's files, except those that other programs put in the Hugging Face cache."""
    serving = serving_of(request)
    body = await read_body(request, AdminDeleteBody, serving.config.limits.body_bytes)
    name = stored_name(serving, body.model)
    if name is None:
        message = f"model {body.model!r} is loaded from a path on the server; its files are not deleted"
        raise ApiError(400, message, code="invalid_value", param="model")
    users = [model for model in serving.models if _reads(model, name)]
    if users:
        message = f"model {users[0].name!r} is {_use(serving, users[0])}; unload it before its files are deleted"
        raise ApiError(409, message, code="model_in_use", param="model")
    if downloads_of(request).find(name) is not None:
        message = f"model {name!r} is being downloaded; cancel that before its files are deleted"
        raise ApiError(409, message, code="model_in_use", param="model")
    removal = await asyncio.to_thread(ModelStore.default().remove, name)
    kept = await asyncio.to_thread(_kept, removal)
    return json_response({"model": name, "freed_bytes": removal.freed, "kept_bytes": kept})


def _reads(model: Resident, name: str) -> bool:
    """Return whether a loaded or loading model needs the files stored under this name."""
    reference = model.reference if model.reference.startswith(HUB_PREFIX) else model.reference.lower()
    is_of = reference == name or reference.startswith(f"{name}:")
    return is_of and (model.state not in (ModelState.UNLOADED, ModelState.FAILED) or model.loading is not None)


def _use(serving: Serving, model: Resident) -> str:
    state = serving.models.residency.state_of(model)
    return "being loaded" if state is ModelState.LOADING else "loaded"


def _kept(removal: Removal) -> int:
    return sum(path.stat().st_size for _, path in removal.kept)


def stored_entry(reference: str, store: ModelStore) -> ModelEntry | None:
    """Return the files of a reference as the catalog or the store lists them, or None if neither does."""
    if reference.startswith(HUB_PREFIX):
        return store.recorded(reference)
    return catalog().get(reference.partition(":")[0].lower())


def catalog_cards(held: Collection[str], store: ModelStore) -> list[dict[str, Any]]:
    """Describe the catalog and the downloaded hub models, except those in `held`."""
    entries = [*catalog().values(), *store.recorded_entries()]
    return [
        {
            "name": entry.name,
            "task": entry.task,
            "title": entry.title,
            "licence": entry.licence,
            "bytes": entry.size,
            "is_here": store.is_present(entry),
            "is_catalog": entry.name in catalog(),
        }
        for entry in entries
        if entry.name not in held
    ]


def disk_card(store: ModelStore) -> dict[str, int]:
    folder = next(folder for folder in (store.home, *store.home.absolute().parents) if Path(folder).exists())
    usage = shutil.disk_usage(folder)
    return {"free_bytes": usage.free, "total_bytes": usage.total}
