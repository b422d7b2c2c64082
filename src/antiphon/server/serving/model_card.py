"""Models as the API describes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS


def task_of(model: Resident) -> str | None:
    """Return the model's task, or None if it is unknown before loading."""
    if model.loaded is not None:
        return model.loaded.task
    if model.base is not None:
        return task_of(model.base)
    entry = catalog().get(model.reference.lower())
    return None if entry is None else CATALOG_TASKS.get(entry.task, entry.task)


def model_card(model: Resident, name: str, state: ModelState) -> dict[str, Any]:
    """Describe a model as `/v1/models` lists it; `state` is from `Residency.state_of`."""
    loaded = model.loaded
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "antiphon",
        "root": model.name,
        "parent": None if model.base is None else model.base.name,
        "state": str(state),
        "task": task_of(model),
        "max_model_len": None if loaded is None else loaded.max_tokens,
        "weight_bytes": None if loaded is None else loaded.weight_bytes,
        "error": model.error,
    }


def anthropic_card(model: Resident, name: str) -> dict[str, Any]:
    max_tokens = None if model.loaded is None else model.loaded.max_tokens
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": rfc3339(model.created),
        "lifecycle": "active",
        "max_input_tokens": max_tokens,
        "max_tokens": max_tokens,
    }


def rfc3339(seconds: float) -> str:
    """Format seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
