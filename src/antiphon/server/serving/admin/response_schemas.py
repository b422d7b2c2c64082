"""Answers about models and health, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import RootModel

from antiphon.server.web.http.schemas import AnswerBody


class ModelCard(AnswerBody):
    """A model under one of its names. `root` is the name it was loaded under, `parent` the base model of an adapter."""

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


class ModelsAnswer(AnswerBody):
    object: Literal["list"]
    data: list[ModelCard]


class AnthropicModelCard(AnswerBody):
    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int | None
    max_tokens: int | None


class AnthropicModelsAnswer(AnswerBody):
    data: list[AnthropicModelCard]
    has_more: bool
    first_id: str | None
    last_id: str | None


class AnyModelsAnswer(RootModel[ModelsAnswer | AnthropicModelsAnswer]):
    """Anthropic's form for requests with the header `anthropic-version`."""


class AnyModelCard(RootModel[ModelCard | AnthropicModelCard]):
    """Anthropic's form for requests with the header `anthropic-version`."""


class DeletedModel(AnswerBody):
    id: str
    object: Literal["model"]
    deleted: Literal[True]


class VersionAnswer(AnswerBody):
    version: str


class HealthAnswer(AnswerBody):
    status: str
    cause: str | None = None
    models: dict[str, Any] | None = None
