"""Values of a config that have the wrong type are errors that name their key."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import CheckpointError
from antiphon.layers.rotary import rotary_from_hf
from antiphon.models import gemma3
from antiphon.models.base import decoder
from antiphon.weights.catalog.hub_models import HUB_REFERENCE
from antiphon.weights.config_values import number, section, size

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 99,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
GEMMA: dict[str, Any] = {**LLAMA, "head_dim": 16, "num_key_value_heads": 1, "sliding_window": 32}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rms_norm_eps", "x"),
        ("rms_norm_eps", [1e-6]),
        ("rms_norm_eps", float("nan")),
        ("num_key_value_heads", "x"),
        ("head_dim", 0.5),
        ("hidden_size", "64"),
        ("rope_theta", "x"),
        ("rope_scaling", "x"),
        ("rope_scaling", {"type": "linear", "factor": "x"}),
        ("rope_scaling", {"type": "linear"}),
    ],
)
def test_a_wrong_value_names_its_key(key: str, value: Any) -> None:
    named = "factor" if isinstance(value, dict) else key
    with pytest.raises(CheckpointError, match=f"config key '{named}' is .*, not a"):
        decoder.config_from_hf({**LLAMA, key: value})
    with pytest.raises(CheckpointError, match=f"config key '{named}' is .*, not a"):
        gemma3.config_from_hf({**GEMMA, key: {"rope_type": "linear", **value} if isinstance(value, dict) else value})


def test_right_values_and_defaults() -> None:
    assert decoder.config_from_hf(LLAMA).norm_eps == 1e-6
    assert decoder.config_from_hf({**LLAMA, "rms_norm_eps": 1, "head_dim": None}).norm_eps == 1.0
    assert rotary_from_hf({"rope_theta": None, "rope_scaling": None}, 16).theta == 10000.0
    assert (size({}, "a", 3), number({"a": None}, "a", 2.0), section({}, "a")) == (3, 2.0, {})


def test_hub_names_have_no_control_characters() -> None:
    assert HUB_REFERENCE.fullmatch("hub:a/b:folder/file.gguf")
    assert not HUB_REFERENCE.fullmatch("hub:a/b:file\0.gguf")
