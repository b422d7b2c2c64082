"""Whisper equals transformers on a tiny random config, from both naming schemes, in mixed batches over pages."""

from __future__ import annotations

import torch
import transformers

from antiphon.models.registry import build_model
from antiphon.models.whisper import Whisper, _openai_names
from antiphon.weights.formats.memory import StateDictCheckpoint
from antiphon.weights.source import TensorNames
from models.test_causal_lm import random_tokens, randomize
from support.kernels.paged import PagedRunner

CONFIG = dict(
    vocab_size=97, num_mel_bins=8, d_model=48, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=192,
    decoder_layers=3, decoder_attention_heads=4, decoder_ffn_dim=192, max_source_positions=20,
    max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip


def tiny_whisper(format: str = "hf") -> tuple[torch.nn.Module, Whisper]:
    config = transformers.WhisperConfig(**CONFIG)
    theirs = randomize(transformers.WhisperForConditionalGeneration._from_config(config, attn_implementation="eager"))
    state = {name: tensor for name, tensor in theirs.state_dict().items() if name != "proj_out.weight"}
    metadata = config.to_dict()
    if format == "openai-whisper":
        rename = TensorNames(_openai_names())
        state = {rename(name): tensor for name, tensor in state.items()}
        metadata = dict(
            n_vocab=97, n_mels=8, n_audio_state=48, n_audio_layer=2, n_audio_head=4, n_text_state=48, n_text_layer=3,
            n_text_head=4, n_audio_ctx=20, n_text_ctx=40,
        )  # fmt: skip
    checkpoint = StateDictCheckpoint(state, "whisper", metadata, format=format)
    ours = build_model(checkpoint)
    assert isinstance(ours, Whisper)
    assert checkpoint.unused() == []
    return theirs, ours


def check(theirs: torch.nn.Module, ours: Whisper) -> None:
    features = torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(1))
    prompts = [random_tokens(11, 1), random_tokens(6, 2)]
    encoded = ours.encode(features.transpose(1, 2).contiguous(), torch.tensor([0, 20, 40], dtype=torch.int32))
    with torch.no_grad():
        states = theirs.model.encoder(features).last_hidden_state
        assert (encoded.view(2, 20, -1) - states).abs().max() <= 1e-4
        expected = [
            theirs(input_features=features[row : row + 1], decoder_input_ids=torch.tensor([prompt])).logits[0]
            for row, prompt in enumerate(prompts)
        ]
    runner = PagedRunner(ours, 2, 16, cross_tokens=20)
    runner.store_encoded(encoded)
    first = runner.step([(0, prompts[0][:4], 0), (1, prompts[1][:1], 0)])
    second = runner.step([(1, prompts[1][1:6], 1), (0, prompts[0][4:5], 4)])
    third = runner.step([(0, prompts[0][5:], 5)])
    assert (torch.cat([first[0], second[1], third[0]]) - expected[0]).abs().max() <= 1e-4
    assert (torch.cat([first[1], second[0]]) - expected[1]).abs().max() <= 1e-4


def test_hugging_face_names() -> None:
    check(*tiny_whisper())


def test_openai_names() -> None:
    check(*tiny_whisper("openai-whisper"))
