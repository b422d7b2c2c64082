"""Pooling and normalisation come from the files that sentence-transformers itself writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.models.bert import Bert, Pooling
from antiphon.models.registry import build_model
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.formats.safetensors import SafetensorsCheckpoint
from antiphon.weights.formats.sentence_transformers import sentence_head

PREFIX = "sentence_transformers.models."


def write(folder: Path, kinds: list[str], pooling: dict[str, Any] | None = None) -> Path:
    modules = [{"path": f"{index}_{kind}" if index else "", "type": PREFIX + kind} for index, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_a_folder_without_modules_has_none(tmp_path: Path) -> None:
    assert sentence_head(tmp_path) is None


@pytest.mark.parametrize(
    ("pooling", "cls"),
    [
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, False),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, True),
        ({"pooling_mode": "mean"}, False),
        ({"pooling_mode": ["cls"]}, True),
        ({}, False),
    ],
)
def test_old_and_new_spellings(tmp_path: Path, pooling: dict[str, Any], cls: bool) -> None:
    folder = write(tmp_path, ["Transformer", "Pooling", "Normalize"], pooling)
    assert sentence_head(folder) == {"pooling_mode_cls_token": cls, "normalize": True}


def test_without_a_normalize_module_vectors_keep_their_length(tmp_path: Path) -> None:
    folder = write(tmp_path, ["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True})
    assert sentence_head(folder) == {"pooling_mode_cls_token": False, "normalize": False}


@pytest.mark.parametrize(
    ("pooling", "name"),
    [
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len_tokens"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls and mean"),
        ({"pooling_mode": []}, "supported"),
    ],
)
def test_other_pooling_is_rejected_by_name(tmp_path: Path, pooling: dict[str, Any], name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        sentence_head(write(tmp_path, ["Transformer", "Pooling"], pooling))


def test_other_modules_are_rejected_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"sentence_transformers\.models\.Dense"):
        sentence_head(write(tmp_path, ["Transformer", "Pooling", "Dense"], {"pooling_mode": "mean"}))


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"1_Pooling/config\.json"):
        sentence_head(write(tmp_path, ["Transformer", "Pooling"]))
    (tmp_path / "modules.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a list of modules"):
        sentence_head(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([{"type": PREFIX + "Pooling", "path": "../.."}]))
    with pytest.raises(CheckpointError, match="not a folder beside it"):
        sentence_head(tmp_path)


def test_the_checkpoint_carries_it(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert "sentence" not in SafetensorsCheckpoint(tmp_path).metadata
    write(tmp_path, ["Transformer", "Pooling"], {"pooling_mode_cls_token": True})
    assert SafetensorsCheckpoint(tmp_path).metadata["sentence"] == {"pooling_mode_cls_token": True, "normalize": False}


@pytest.mark.slow
def test_files_written_by_sentence_transformers(tmp_path: Path) -> None:
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Transformer
    from sentence_transformers.models import Pooling as TheirPooling

    from support.models.tiny_model import tiny_tokenizer

    config = transformers.BertConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48
    )
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "bert")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer(), pad_token="<|endoftext|>")
    tokenizer.save_pretrained(tmp_path / "bert")
    modules = [Transformer(str(tmp_path / "bert")), TheirPooling(32, pooling_mode="cls"), Normalize()]
    theirs = SentenceTransformer(modules=modules, device="cpu")
    theirs.save_pretrained(str(tmp_path / "sentence"))
    model = build_model(open_checkpoint(tmp_path / "sentence"))
    assert isinstance(model, Bert)
    assert (model.config.pooling, model.config.normalize) == (Pooling.CLS, True)
    ids = torch.tensor(tokenizer.encode("hello there"), dtype=torch.int32)
    ours = model.embed(ids, torch.arange(len(ids), dtype=torch.int32), torch.tensor([0, len(ids)], dtype=torch.int32))
    torch.testing.assert_close(ours[0], torch.from_numpy(theirs.encode("hello there")), atol=1e-5, rtol=1e-4)


@pytest.mark.weights
def test_minilm_takes_the_normalised_mean(model_path: Callable[[str], Path]) -> None:
    model = build_model(open_checkpoint(model_path("all-minilm-l6-v2")))
    assert isinstance(model, Bert)
    assert (model.config.pooling, model.config.normalize) == (Pooling.MEAN, True)
