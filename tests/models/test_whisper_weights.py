"""Whisper on real weights equals openai-whisper and transformers, from each of the four file formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

from antiphon import ops
from antiphon.audio.decode import decode
from antiphon.audio.mel import window_features
from antiphon.models.registry import build_model
from antiphon.models.whisper import Whisper, _openai_names
from antiphon.models.whisper_alignment import KNOWN
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.source import TensorNames
from support.kernels.paged import PagedRunner
from support.models.openai_whisper import openai_model
from support.sound.speech import JFK_PACKAGE, JFK_SHA256, jfk
from support.text.vocabularies import package_files

pytestmark = [pytest.mark.weights, pytest.mark.slow]

QUANTISED_MEMBER = "package/examples/ggml-tiny-q5_1.bin"
TOKENS = [50257, 50363, 843, 523, 616, 5891, 3399]


def ours(checkpoint: Checkpoint) -> Whisper:
    model = build_model(checkpoint)
    assert isinstance(model, Whisper) and checkpoint.unused() == []
    return model


def outputs(model: Whisper, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encoder states, and logits of a prompt computed in two chunks over pages."""
    encoded = model.encode(features[None], torch.tensor([0, 1500], dtype=torch.int32))
    runner = PagedRunner(model, 1, 16, cross_tokens=1500)
    runner.store_encoded(encoded)
    logits = [runner.step([(0, TOKENS[:4], 0)])[0], runner.step([(0, TOKENS[4:], 4)])[0]]
    return encoded, torch.cat(logits)


def check(got: tuple[torch.Tensor, torch.Tensor], states: torch.Tensor, logits: torch.Tensor) -> None:
    """Some states of the silence after the sound are ill-conditioned, so states are held to their own scale."""
    assert (got[0] - states).norm() <= 1e-4 * states.norm()
    assert (got[0] - states).abs().max() <= 1e-3 * states.abs().max()
    assert (got[1] - logits).abs().max() <= 1e-3


def features_of(model: Whisper) -> torch.Tensor:
    return torch.from_numpy(window_features(decode(jfk()).values, model.config.num_mels))


@torch.no_grad()
def check_openai(checkpoint: Checkpoint) -> None:
    model = ours(checkpoint)
    features = features_of(model)
    reference = openai_model(checkpoint)
    states = reference.embed_audio(features.T[None])
    logits = reference.logits(torch.tensor([TOKENS]), states)[0]
    check(outputs(model, features), states[0], logits)


def test_openai_pt(model_path: Callable[[str], Path]) -> None:
    check_openai(open_checkpoint(model_path("whisper-tiny.en")))


def test_ggml_f16(model_path: Callable[[str], Path]) -> None:
    check_openai(open_checkpoint(model_path("whisper-base.en")))


def test_ggml_q5_1() -> None:
    path = package_files(JFK_PACKAGE, JFK_SHA256, [QUANTISED_MEMBER])[QUANTISED_MEMBER]
    with ops.use_backend("reference"):  # which decodes the weights and rounds nothing else
        check_openai(open_checkpoint(path))


def transformers_model(config: transformers.WhisperConfig, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    model = transformers.WhisperForConditionalGeneration._from_config(config, attn_implementation="eager")
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"proj_out.weight"} | {m for m in missing if "k_proj.bias" in m}
    model.tie_weights()
    return model.eval()


@torch.no_grad()
def check_transformers(model: Whisper, reference: torch.nn.Module) -> None:
    features = features_of(model)
    states = reference.model.encoder(features.T[None]).last_hidden_state[0]
    logits = reference(input_features=features.T[None], decoder_input_ids=torch.tensor([TOKENS])).logits[0]
    check(outputs(model, features), states, logits)


def test_ctranslate2(model_path: Callable[[str], Path]) -> None:
    checkpoint = open_checkpoint(model_path("whisper-base"))
    model = ours(checkpoint)
    assert model.config.alignment_heads == KNOWN[6, 8, 51865], "as the folder's own config.json states them"
    keys = transformers.WhisperConfig().to_dict()
    config = transformers.WhisperConfig(**{k: v for k, v in checkpoint.metadata.items() if k in keys})
    state = {
        name: dequantize(tensor.data, tensor.type).view(tensor.shape)
        for name, tensor in checkpoint.tensors().items()
        if not name.endswith("k_proj.bias")
    }
    check_transformers(model, transformers_model(config, state))


def test_hugging_face_folder(model_path: Callable[[str], Path], tmp_path: Path) -> None:
    """OpenAI's tiny.en as transformers would save it."""
    source = open_checkpoint(model_path("whisper-tiny.en"))
    rename = TensorNames(_openai_names())
    dims = source.metadata
    config = transformers.WhisperConfig(
        vocab_size=dims["n_vocab"], d_model=dims["n_audio_state"], encoder_layers=4, decoder_layers=4,
        encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    names = transformers.WhisperForConditionalGeneration._from_config(config).state_dict()
    state = {
        name: dequantize(stored.data, stored.type).view(stored.shape)
        for name in names
        if (stored := source.tensors().get(rename(name))) is not None
    }
    reference = transformers_model(config, state)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict() | {"model_type": "whisper"}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"alignment_heads": [[1, 0], [2, 5]]}))
    safetensors.torch.save_file({k: v.half() for k, v in state.items()}, tmp_path / "model.safetensors")
    model = ours(open_checkpoint(tmp_path))
    assert model.config.alignment_heads == ((1, 0), (2, 5))
    check_transformers(model, reference)
