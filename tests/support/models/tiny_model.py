"""Tiny random Llama with a tokenizer and a chat template, as a Hugging Face folder and as a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 64, 96, 2, 4, 2, 16
CONTEXT = 4096
#: Rows of the embedding: more than the tokenizer has tokens, as in real checkpoints.
EMBEDDING_ROWS = 272
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "t")]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": EMBEDDING_ROWS,
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def vocabulary() -> list[str]:
    """Return the tokens in the order of their ids: bytes, merges, control tokens."""
    return [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in MERGES), *SPECIAL]


def tiny_tokenizer() -> Tokenizer:
    tokens = vocabulary()
    plain = {token: index for index, token in enumerate(tokens) if token not in SPECIAL}
    tokenizer = Tokenizer(models.BPE(vocab=plain, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return tokenizer


def tiny_state(seed: int = 0) -> dict[str, Tensor]:
    """Return random weights under Hugging Face's names. The likeliest token is always a printable ASCII character."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return 0.12 * torch.randn(rows, columns, generator=generator)

    def norm() -> Tensor:
        return 1 + 0.2 * torch.randn(HIDDEN, generator=generator)

    state = {"model.embed_tokens.weight": matrix(EMBEDDING_ROWS, HIDDEN), "model.norm.weight": norm()}
    for index in range(LAYERS):
        layer = f"model.layers.{index}."
        state |= {
            layer + "input_layernorm.weight": norm(),
            layer + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN),
            layer + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            layer + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            layer + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            layer + "post_attention_layernorm.weight": norm(),
            layer + "mlp.gate_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            layer + "mlp.up_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            layer + "mlp.down_proj.weight": matrix(HIDDEN, INTERMEDIATE),
        }
    head = 10 * matrix(EMBEDDING_ROWS, HIDDEN)
    tokens = vocabulary()
    for index in range(EMBEDDING_ROWS):
        if index >= len(tokens) or len(tokens[index]) != 1 or not tokens[index].isascii():
            head[index] = 0
    state["lm_head.weight"] = head
    return state


def write_folder(
    folder: Path,
    state: dict[str, Tensor] | None = None,
    config: dict[str, Any] | None = None,
    chat_template: str | None = CHAT_TEMPLATE,
) -> Path:
    """Write the model as a Hugging Face folder; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tiny_state() if state is None else state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    tokenizer_config = {"eos_token": "<|im_end|>", "bos_token": None, "chat_template": chat_template}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    return folder


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Interleave rows of a query or key matrix as GGUF does for Llama: the channels of a rotary pair are adjacent."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    path: Path,
    state: dict[str, Tensor] | None = None,
    architecture: str = "llama",
    quantised: str | None = None,
    describe: Callable[[gguf.GGUFWriter], object] | None = None,
) -> Path:
    """Write the same model as llama.cpp's converter does, in F32 or with its matrices in a quantised type.

    `describe` may add metadata.
    """
    writer = gguf.GGUFWriter(path, architecture)
    if describe is not None:
        describe(writer)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(CONFIG["rope_theta"])
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in MERGES])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in (tiny_state() if state is None else state).items():
        values = _gguf_rows(name, tensor).numpy().astype(np.float32)
        if quantised is None or tensor.dim() < 2:
            writer.add_tensor(_gguf_name(name), values)
        else:
            kind = gguf.GGMLQuantizationType[quantised]
            writer.add_tensor(_gguf_name(name), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_name(name: str) -> str:
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    whole["lm_head.weight"] = "output.weight"
    if name in whole:
        return whole[name]
    index, module = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    return f"blk.{index}.{GGUF_NAMES[module]}.weight"


def _gguf_rows(name: str, tensor: Tensor) -> Tensor:
    if "q_proj" in name:
        return interleaved(tensor, HEADS)
    return interleaved(tensor, KV_HEADS) if "k_proj" in name else tensor


def write_bert(folder: Path) -> Path:
    """Write a tiny encoder with the tiny tokenizer and zero weights; return its folder."""
    shapes = {
        "embeddings.word_embeddings.weight": (272, 16),
        "embeddings.position_embeddings.weight": (32, 16),
        "embeddings.token_type_embeddings.weight": (2, 16),
        "embeddings.LayerNorm.weight": (16,),
        "embeddings.LayerNorm.bias": (16,),
    }
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes |= {f"encoder.layer.0.{name}.weight": (16, 16), f"encoder.layer.0.{name}.bias": (16,)}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes |= {f"encoder.layer.0.{name}.weight": (16,), f"encoder.layer.0.{name}.bias": (16,)}
    for name, rows, columns in (("intermediate.dense", 24, 16), ("output.dense", 16, 24)):
        shapes |= {f"encoder.layer.0.{name}.weight": (rows, columns), f"encoder.layer.0.{name}.bias": (rows,)}
    config = {
        "model_type": "bert",
        "vocab_size": 272,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
    }
    state = {name: torch.zeros(shape) for name, shape in shapes.items()}
    return write_folder(folder / "bert", state, config, chat_template=None)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model's folder, which tests must not change."""
    return write_folder(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("models") / "tiny-llama.gguf")
