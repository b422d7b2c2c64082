"""Random Whisper with the real vocabulary's layout, small enough to run in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from antiphon.models.registry import build_model
from antiphon.runtime.loading.loading import LoadedModel, LoadReport
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer
from antiphon.weights.formats.memory import StateDictCheckpoint

HIDDEN, HEADS, LAYERS, MELS, POSITIONS, TEXT_POSITIONS = 32, 2, 2, 80, 500, 64
ENGLISH, MULTILINGUAL = 51864, 51865


def dims(vocab_size: int = ENGLISH) -> dict[str, int]:
    """Return the model's sizes under OpenAI's names."""
    return dict(
        n_vocab=vocab_size, n_mels=MELS, n_audio_ctx=POSITIONS, n_audio_state=HIDDEN, n_audio_head=HEADS,
        n_audio_layer=LAYERS, n_text_ctx=TEXT_POSITIONS, n_text_state=HIDDEN, n_text_head=HEADS, n_text_layer=LAYERS,
    )  # fmt: skip


default_dims = dims


def small_dims(vocab_size: int, states: int, text_positions: int) -> dict[str, int]:
    """Return sizes of a one-layer model with the given vocabulary and numbers of encoder and text positions."""
    lengths = {"n_audio_ctx": states, "n_text_ctx": text_positions}
    return dims(vocab_size) | lengths | {"n_audio_layer": 1, "n_text_layer": 1}


def state_dict(
    vocab_size: int = ENGLISH, seed: int = 0, dims: Mapping[str, int] | None = None
) -> dict[str, torch.Tensor]:
    """Return random tensors under OpenAI's names; the width is HIDDEN whatever `dims` say."""
    sizes = dims or default_dims(vocab_size)
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.3

    state = {
        "encoder.conv1.weight": random(HIDDEN, MELS, 3),
        "encoder.conv2.weight": random(HIDDEN, HIDDEN, 3),
        "encoder.positional_embedding": random(sizes["n_audio_ctx"], HIDDEN),
        "decoder.positional_embedding": random(sizes["n_text_ctx"], HIDDEN),
        "decoder.token_embedding.weight": random(sizes["n_vocab"], HIDDEN),
    }
    norms = ["encoder.ln_post", "decoder.ln"]
    linears: list[tuple[str, int, int]] = []
    for side in ("encoder", "decoder"):
        for layer in range(sizes["n_text_layer"]):
            block = f"{side}.blocks.{layer}"
            norms += [f"{block}.attn_ln", f"{block}.mlp_ln"]
            linears += [(f"{block}.mlp.0", 4 * HIDDEN, HIDDEN), (f"{block}.mlp.2", HIDDEN, 4 * HIDDEN)]
            for attention in ("attn", "cross_attn") if side == "decoder" else ("attn",):
                names = ("query", "key", "value", "out")
                linears += [(f"{block}.{attention}.{name}", HIDDEN, HIDDEN) for name in names]
            if side == "decoder":
                norms.append(f"{block}.cross_attn_ln")
    for name in norms:
        state[f"{name}.weight"] = 1.0 + random(HIDDEN)
        state[f"{name}.bias"] = random(HIDDEN)
    for name, rows, columns in linears:
        state[f"{name}.weight"] = random(rows, columns)
        if not name.endswith(".key"):
            state[f"{name}.bias"] = random(rows)
    for layer in (1, 2):
        state[f"encoder.conv{layer}.bias"] = random(HIDDEN)
    return state


def vocabulary(count: int) -> list[bytes]:
    """Return `count` byte strings by rank: the 256 bytes, then pairs, then a space with four letters."""
    tokens = [bytes([byte]) for byte in range(256)]
    letters = b"abcdefghijklmnopqrstuvwxyz"
    for first in (b" ", *(bytes([letter]) for letter in letters)):
        tokens += [first + bytes([letter]) for letter in letters]
    number = 0
    while len(tokens) < count:
        tokens.append(b" " + bytes(letters[number // 26**index % 26] for index in range(4)))
        number += 1
    return tokens[:count]


def tiny_whisper(vocab_size: int = ENGLISH, name: str = "tiny-whisper", seed: int = 0) -> LoadedModel:
    checkpoint = StateDictCheckpoint(state_dict(vocab_size, seed), "whisper", dims(vocab_size), format="openai-whisper")
    tokenizer = WhisperTokenizer(vocabulary(50257), vocab_size)
    model = build_model(checkpoint)
    assert checkpoint.unused() == []
    return LoadedModel(name, model, tokenizer, None, tokenizer.eos_ids, LoadReport(backend="native"))
