"""A model as the API describes it."""

from __future__ import annotations

from typing import Any

from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS


def task_of(model: Resident) -> str | None:
    """The task of a model, as far as it is known before loading."""
    if model.loaded is not None:
        return model.loaded.task
    if model.base is not None:
        return task_of(model.base)
    entry = catalog().get(model.reference.lower())
    return None if entry is None else CATALOG_TASKS.get(entry.task, entry.task)


def model_card(model: Resident, name: str, state: ModelState) -> dict[str, Any]:
    """A model as listed by `/v1/models`; `state` is the one that `Residency.state_of` tells."""
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
