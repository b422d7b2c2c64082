"""Adapter files: what is read of them, and what is rejected by name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from antiphon.errors import AntiphonError, CheckpointError, ModelNotFoundError, UnsupportedError
from antiphon.weights.adapters.open import open_adapter
from support.models.adapters import Pairs, random_pairs, write_gguf_adapter, write_peft
from support.models.tiny_model import tiny_state

LAYER = "model.layers.0.self_attn.q_proj"
OTHER = "model.layers.1.mlp.down_proj"


@pytest.fixture
def pairs() -> Pairs:
    return random_pairs(tiny_state(), 4, 0, [LAYER, OTHER])


def test_peft(pairs: Pairs, tmp_path: Path) -> None:
    file = open_adapter(write_peft(tmp_path / "a", pairs, 6, torch.bfloat16))
    assert (file.format, set(file.layers)) == ("peft", {LAYER, OTHER})
    layer = file.layers[OTHER]
    assert (layer.scale, layer.rank, layer.down.shape, layer.up.shape) == (1.5, 4, (4, 96), (64, 4))
    assert file.nbytes == sum(2 * (down.numel() + up.numel()) for down, up in pairs.values())


def test_gguf(pairs: Pairs, tmp_path: Path) -> None:
    file = open_adapter(write_gguf_adapter(tmp_path / "a.gguf", pairs, 6))
    assert (file.format, file.architecture) == ("gguf", "llama")
    assert {name: layer.scale for name, layer in file.layers.items()} == {
        "blk.0.attn_q.weight": 1.5,
        "blk.1.ffn_down.weight": 1.5,
    }
    assert open_adapter(write_gguf_adapter(tmp_path / "b.gguf", pairs, 0)).layers["blk.0.attn_q.weight"].scale == 1


def test_scales_follow_patterns_and_rslora(pairs: Pairs, tmp_path: Path) -> None:
    pairs[OTHER] = random_pairs(tiny_state(), 9, 1, [OTHER])[OTHER]
    settings = {"rank_pattern": {"down_proj": 9}, "alpha_pattern": {r"layers\.[01]\.mlp\.down_proj": 3}}
    plain = open_adapter(write_peft(tmp_path / "a", pairs, 8, **settings))
    assert (plain.layers[LAYER].scale, plain.layers[OTHER].scale) == (2.0, 3 / 9)
    stable = open_adapter(write_peft(tmp_path / "b", pairs, 8, use_rslora=True, **settings))
    assert (stable.layers[LAYER].scale, stable.layers[OTHER].scale) == (8 / math.sqrt(4), 1.0)


def test_the_digest_is_of_what_is_computed(pairs: Pairs, tmp_path: Path) -> None:
    first = open_adapter(write_peft(tmp_path / "a", pairs, 8)).digest()
    assert open_adapter(write_peft(tmp_path / "b", pairs, 8)).digest() == first
    assert open_adapter(write_peft(tmp_path / "c", pairs, 9)).digest() != first
    pairs[LAYER][1][0, 0] += 1
    assert open_adapter(write_peft(tmp_path / "d", pairs, 8)).digest() != first


def test_the_file_may_change_afterwards(pairs: Pairs, tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "a", pairs, 8)
    file = open_adapter(folder)
    before = file.digest()
    (folder / "adapter_model.safetensors").write_bytes(b"")
    assert file.digest() == before


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"peft_type": "IA3"}, "peft_type 'IA3'"),
        ({"use_dora": True}, "use_dora = True"),
        ({"bias": "all"}, "bias = 'all'"),
        ({"lora_bias": True}, "lora_bias = True"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save = ['lm_head']"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"target_parameters": ["x"]}, "target_parameters"),
        ({"alora_invocation_tokens": [5]}, "alora_invocation_tokens"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights = 'pissa_niter_4' changes the base"),
        ({"alpha_pattern": {"(a+)+": 1}}, "too complex"),
    ],
)
def test_unsupported_features_are_named(settings: dict[str, Any], named: str, pairs: Pairs, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"adapter_config\.json") as error:
        open_adapter(write_peft(tmp_path, pairs, 8, **settings))
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"r": 8}, "rank 4 in the file, 8 in the settings"),
        ({"lora_alpha": "x"}, "lora_alpha is 'x'"),
        ({"lora_alpha": True}, "lora_alpha is True"),
        ({"alpha_pattern": {"(": 1}}, "is not valid"),
        ({"rank_pattern": [1]}, "rank_pattern is a list"),
        ({"target_modules": ["q_proj", "v_proj"]}, "names 'v_proj', and the file has no matrices for it"),
        ({"target_modules": [3]}, "target_modules has 3"),
    ],
)
def test_bad_settings(settings: dict[str, Any], named: str, pairs: Pairs, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        open_adapter(write_peft(tmp_path, pairs, 8, **settings))
    assert named in str(error.value)


@pytest.mark.parametrize("targets", ["all-linear", r".*\.(q|down)_proj"])
def test_targets_as_a_word_or_a_pattern(targets: str, pairs: Pairs, tmp_path: Path) -> None:
    assert len(open_adapter(write_peft(tmp_path, pairs, 8, target_modules=targets)).layers) == 2


EXTRA = {
    "base_model.model.model.embed_tokens.lora_embedding_A": "an adapted embedding",
    "base_model.model.lm_head.lora_A.weight": "lm_head",
    f"base_model.model.{LAYER}.lora_magnitude_vector": "DoRA",
    f"base_model.model.{LAYER}.lora_B.bias": "a bias",
    "base_model.model.model.norm.weight": "not part of a plain LoRA adapter",
}


@pytest.mark.parametrize("name", EXTRA)
def test_tensors_of_other_features_are_named(name: str, pairs: Pairs, tmp_path: Path) -> None:
    path = write_peft(tmp_path, pairs, 8) / "adapter_model.safetensors"
    save_file(load_file(path) | {name: torch.zeros(4, 4)}, path)
    with pytest.raises(UnsupportedError) as error:
        open_adapter(tmp_path)
    assert EXTRA[name] in str(error.value)
    assert name in str(error.value)


def _without_up(path: Path) -> None:
    state = load_file(path)
    del state[f"base_model.model.{LAYER}.lora_B.weight"]
    save_file(state, path)


def _other_rank(path: Path) -> None:
    save_file(load_file(path) | {f"base_model.model.{LAYER}.lora_B.weight": torch.zeros(64, 5)}, path)


def _whole_numbers(path: Path) -> None:
    save_file(load_file(path) | {f"base_model.model.{LAYER}.lora_B.weight": torch.zeros(64, 4).int()}, path)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


BROKEN: dict[Callable[[Path], None], str] = {
    _without_up: "has no lora_B",
    _other_rank: "their ranks are 4 and 5",
    _whole_numbers: "has the type I32",
    _cut: "adapter_model.safetensors",
    lambda path: path.write_bytes(b"\xff" * 100) and None: "claims a header",
    lambda path: path.unlink(): "no adapter_model.safetensors",
}


@pytest.mark.parametrize("damage", BROKEN)
def test_broken_files(damage: Callable[[Path], None], pairs: Pairs, tmp_path: Path) -> None:
    damage(write_peft(tmp_path, pairs, 8) / "adapter_model.safetensors")
    with pytest.raises(AntiphonError) as error:
        open_adapter(tmp_path)
    assert BROKEN[damage] in str(error.value)


def test_what_is_no_adapter(tmp_path: Path, tiny_gguf: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no adapter_config\.json"):
        open_adapter(tmp_path)
    with pytest.raises(ModelNotFoundError, match="no such file or folder"):
        open_adapter(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match=r"is not an adapter: its general\.type is None"):
        open_adapter(tiny_gguf)
    (tmp_path / "text").write_text("text")
    with pytest.raises(CheckpointError, match="neither GGUF nor a folder"):
        open_adapter(tmp_path / "text")
    (tmp_path / "adapter_config.json").write_text(json.dumps([1]))
    with pytest.raises(CheckpointError, match="not an object"):
        open_adapter(tmp_path)


def test_other_kinds_of_gguf_adapters(pairs: Pairs, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="of type 'control_vector'"):
        open_adapter(write_gguf_adapter(tmp_path / "a.gguf", pairs, 8, kind="control_vector"))
