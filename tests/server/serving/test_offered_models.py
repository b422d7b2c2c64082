"""Models that a server offers to choose from: configured ones, and defaults that a request may load."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from antiphon.server.serving.models import ServedModels
from antiphon.server.serving.setup.config import LoadOnUse, ModelSpec, ServerConfig

SOUND = ["whisper-base.en", "hibari-6m"]


def offered(*names: str, **changes: Any) -> list[str]:
    models = ServedModels(ServerConfig(models=tuple(ModelSpec.of(name) for name in names), **changes), Mock())
    return [model.name for model in models.offered()]


def test_a_task_without_a_configured_model_has_its_default() -> None:
    assert offered("smollm2-135m", "all-minilm-l6-v2") == ["smollm2-135m", "all-minilm-l6-v2", *SOUND]
    assert offered("kokoro-82m") == ["kokoro-82m", "qwen2.5-coder-0.5b", "all-minilm-l6-v2", "whisper-base.en"]
    assert offered("hibari-6m", aliases={"ears": "whisper-tiny.en"}, load_on_use=LoadOnUse.HUB) == [
        "hibari-6m",
        "whisper-tiny.en",
        "qwen2.5-coder-0.5b",
        "all-minilm-l6-v2",
    ]


def test_a_model_whose_task_is_unknown_may_be_a_language_model() -> None:
    assert offered("hub:owner/model") == ["hub:owner/model", "all-minilm-l6-v2", *SOUND]


def test_only_configured_models_are_offered_if_no_other_may_be_loaded() -> None:
    assert offered("smollm2-135m", load_on_use=LoadOnUse.CONFIGURED) == ["smollm2-135m"]
