"""The answers about models and health, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.server.http.schemas import Answer


class ModelCard(Answer):
    """A model under one of its names; `root` is the name it was loaded under, `parent` the model of an adapter."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: str | None
    state: Literal["unloaded", "loading", "ready", "unloading", "failed"]
    task: str | None
    max_model_len: int | None
    weight_bytes: int | None
    error: str | None


class ModelsAnswer(Answer):
    object: Literal["list"]
    data: list[ModelCard]


class DeletedModel(Answer):
    id: str
    object: Literal["model"]
    deleted: Literal[True]


class VersionAnswer(Answer):
    version: str


class HealthAnswer(Answer):
    status: str
    cause: str | None = None
    models: dict[str, Any] | None = None
