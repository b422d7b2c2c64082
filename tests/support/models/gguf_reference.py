"""transformers' models with the weights of GGUF files, decoded by the `gguf` package.

transformers' own loader takes a minute for a vocabulary of 262,144 tokens, most of it for the tokens' texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from torch import Tensor

from antiphon.weights.formats.open import open_checkpoint

#: GGUF's size keys without the architecture → configuration keys of transformers.
SIZES = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "rope.freq_base": "rope_theta",
}
MODEL_TYPES = {"llama": "llama", "qwen2": "qwen2", "gemma3": "gemma3_text"}


def reference_model(path: Path) -> torch.nn.Module:
    """Return transformers' model of a GGUF file, in fp32."""
    checkpoint = open_checkpoint(path)
    metadata, architecture = checkpoint.metadata, checkpoint.architecture
    sizes: dict[str, Any] = {
        theirs: metadata[f"{architecture}.{name}"]
        for name, theirs in SIZES.items()
        if f"{architecture}.{name}" in metadata
    }
    is_tied = not checkpoint.has("output.weight")
    config = transformers.AutoConfig.for_model(
        MODEL_TYPES[architecture],
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        tie_word_embeddings=is_tied,
        **sizes,
    )
    with torch.device("meta"):
        empty = transformers.AutoModelForCausalLM.from_config(config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], config.num_hidden_layers)
    state: dict[str, Tensor] = {}
    for name in empty.state_dict():
        stem, _, kind = name.rpartition(".")
        stored = checkpoint.tensors().get(f"{names.get_name(stem)}.{kind}")
        if stored is None:
            assert is_tied and stem == "lm_head", name
            continue
        rows = stored.data.numpy().reshape(*stored.shape[:-1], -1)
        values = torch.from_numpy(gguf.dequantize(rows, gguf.GGMLQuantizationType(stored.type)))
        state[name] = _as_transformers(values.float(), name, config)
    options = dict(config=config, state_dict=state, dtype=torch.float32)
    return type(empty).from_pretrained(None, **options).eval()


def _as_transformers(values: Tensor, name: str, config: Any) -> Tensor:
    """Undo changes of llama.cpp's converter: Llama's interleaved rotary pairs, and the 1 added to Gemma's norms."""
    if config.model_type == "gemma3_text" and "norm" in name:
        return values - 1
    if config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        return values.view(heads, -1, 2, values.shape[1]).transpose(1, 2).reshape(values.shape)
    return values
