"""Transcription and embedding models of known shapes with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from antiphon.bench.random_models.random_model import random_model_of
from antiphon.errors import InvalidRequestError
from antiphon.ops import Device
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import WeightOptions
from antiphon.text.tokenization.whisper_tokens import WhisperTokens
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer

#: Tokens in the vocabulary of Whisper's multilingual models before large-v3.
WHISPER_VOCABULARY = 51865


def _whisper(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * hidden))
    }
    lengths = {"max_source_positions": 1500, "max_target_positions": 448}
    return {
        "model_type": "whisper", "vocab_size": WHISPER_VOCABULARY, "num_mel_bins": 80, "d_model": hidden, **sides,
        **lengths,
    }  # fmt: skip


def _bert(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "bert", "vocab_size": 30522, "hidden_size": hidden, "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads, "max_position_embeddings": 512,
        "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    }  # fmt: skip


#: Configurations by shape name, with the values of the published models.
WHISPER_SHAPES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "whisper-tiny": _whisper(384, 4, 6),
        "whisper-base": _whisper(512, 6, 8),
        "whisper-small": _whisper(768, 12, 12),
        "whisper-medium": _whisper(1024, 24, 16),
    }
)
BERT_SHAPES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {"all-minilm-l6": _bert(384, 6, 12), "bge-small": _bert(384, 12, 12), "bge-large": _bert(1024, 24, 16)}
)


def random_whisper(
    shape: str, options: WeightOptions | None = None, seed: int = 0, device: Device | None = None
) -> LoadedModel:
    """Build a Whisper of this shape with random weights.

    Its transcripts are nonsense and rarely end before their limit.
    """
    tokenizer = WhisperTokenizer(_spellings(), WHISPER_VOCABULARY)
    return random_model_of(f"random-{shape}", _known(shape, WHISPER_SHAPES), options, seed, device, tokenizer)


def random_bert(
    shape: str, options: WeightOptions | None = None, seed: int = 0, device: Device | None = None
) -> LoadedModel:
    """Build a BERT of this shape with random weights. Its tokenizer's texts are numbers."""
    return random_model_of(f"random-{shape}", _known(shape, BERT_SHAPES), options, seed, device)


def _known(shape: str, shapes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if shape not in shapes:
        raise InvalidRequestError(f"there is no shape {shape!r}; there are: {', '.join(shapes)}")
    return shapes[shape]


def _spellings() -> list[bytes]:
    """Return the texts of the text tokens: the 256 bytes, then numbers."""
    count = WhisperTokens.of_vocabulary(WHISPER_VOCABULARY).end
    return [bytes([byte]) for byte in range(256)] + [b" %d" % number for number in range(256, count)]
