"""Every decoder architecture in small, and the shape of Qwen3-0.6B with a few layers, with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from antiphon import ops
from antiphon.bench.random_models.random_model import SHAPES, RandomCheckpoint
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import Device, triton
from antiphon.ops.registry import get_backend

_SMALL: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "rope_theta": 1e4, "tie_word_embeddings": False,
}  # fmt: skip
_GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text", "num_hidden_layers": 7, "head_dim": 32, "sliding_window": 16,
    "query_pre_attn_scalar": 32, "rope_local_base_freq": 1e4, "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
}  # fmt: skip
_GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 1000, "n_embd": 256, "n_layer": 2, "n_head": 8, "n_positions": 1024,
    "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True,
}  # fmt: skip

#: Configurations in Hugging Face's format.
ARCHITECTURES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "llama": _SMALL | {"model_type": "llama"},
        "qwen2": _SMALL | {"model_type": "qwen2", "tie_word_embeddings": True},
        "qwen3": _SMALL | {"model_type": "qwen3", "head_dim": 32},
        "gemma3": _SMALL | _GEMMA3,
        "gpt2": _GPT2,
    }
)
LARGE = "qwen3-0.6b, 4 layers"
LARGE_METADATA = SHAPES["qwen3-0.6b"] | {"num_hidden_layers": 4}


class BiasedCheckpoint(RandomCheckpoint):
    """Random weights that include every bias a model may have."""

    def has(self, name: str) -> bool:
        return name.endswith(".bias") or super().has(name)


@dataclass(frozen=True)
class Placed:
    """Decoder whose operations run on a backend, with the type of its activations and pages."""

    decoder: TokenDecoder
    backend: str
    place: torch.device
    dtype: torch.dtype


def own_backend(device: Device) -> str:
    return "triton" if device.torch.type == "cuda" or triton.is_interpreted() else ops.active_backend().name


def half_type(backend: str) -> torch.dtype:
    """Return the type to compare: bf16 on a card, fp32 on the CPU, fp16 in the interpreter, whose bf16 is wrong."""
    if backend != "triton":
        return torch.float32
    return torch.float16 if triton.is_interpreted() else torch.bfloat16


def build(metadata: Mapping[str, Any], backend: str, place: torch.device, dtype: torch.dtype) -> Placed:
    """Build a decoder for a backend; its checkpoint's weights are bf16, and equal for every backend."""
    model = build_model(BiasedCheckpoint(metadata))
    if place.type != "cpu":
        model.place(place)
    with ops.use_backend(backend):
        for node in model.modules():
            if dtype is not torch.float32:
                node.set_compute_type(dtype)
            node.prepare()
        options: dict[str, Any] = {} if backend == "native" else {"device": place, "dtype": dtype}
        get_backend(backend).prepare_weights(list(model.weights()), **options)
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    return Placed(decoder, backend, place, dtype)
