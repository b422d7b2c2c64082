"""Adapters on real weights, against transformers with the merged weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from antiphon import ops
from antiphon.models.base.adapters import fit_adapter
from antiphon.models.base.model import CausalLM
from antiphon.models.registry import build_model
from antiphon.weights.adapters.open import open_adapter
from antiphon.weights.formats.open import open_checkpoint
from models.test_model_adapters import adapted_logits
from support.models.adapters import linear_layers, merged, random_pairs, write_gguf_adapter, write_peft

pytestmark = pytest.mark.weights

#: Tokens of a story; the model has 32,000.
TOKENS = [1, 9038, 2501, 263, 931, 29892, 727, 471, 263, 2217, 7826, 4257, 365, 2354, 29889, 2296, 18012, 304, 1708]


def half_split(weight: Tensor, heads: int) -> Tensor:
    """Rows of llama2.c's queries and keys, whose rotary pairs are interleaved, as transformers has them."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def stories_state(path: Path) -> tuple[dict[str, Tensor], transformers.LlamaConfig]:
    """The checkpoint under Hugging Face's names, in transformers' own layout."""
    checkpoint = open_checkpoint(path)
    metadata = checkpoint.metadata
    state = {name: checkpoint.tensor(name, stored.shape) for name, stored in checkpoint.tensors().items()}
    heads = metadata["num_attention_heads"]
    for name in state:
        if "q_proj" in name or "k_proj" in name:
            state[name] = half_split(state[name], heads)
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    sizes = {name: metadata[name] for name in (*names, "num_key_value_heads", "max_position_embeddings")}
    tied = "lm_head.weight" not in state
    config = transformers.LlamaConfig(**sizes, rms_norm_eps=metadata["rms_norm_eps"], tie_word_embeddings=tied)
    return state, config


def transformers_logits(state: dict[str, Tensor], config: transformers.LlamaConfig) -> Tensor:
    model = transformers.LlamaForCausalLM(config).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    with torch.no_grad():
        logits: Tensor = model(torch.tensor([TOKENS])).logits[0]
    return logits


@pytest.mark.parametrize("backend", ops.available_backends())
def test_stories_with_adapters_on_every_linear_layer(
    backend: str, model_path: Callable[[str], Path], tmp_path: Path
) -> None:
    """Ranks 8 and 16, PEFT and GGUF, in one step with the base; within 1e-4 of fp32 weights that are merged."""
    path = model_path("stories-15m")
    state, config = stories_state(path)
    model = build_model(open_checkpoint(path))
    assert isinstance(model, CausalLM)
    expected = [transformers_logits(state, config)]
    for slot, rank in enumerate((8, 16)):
        pairs = random_pairs(state, rank, rank, linear_layers(state), 0.03)
        peft = write_peft(tmp_path / f"{rank}", pairs, 16, target_modules="all-linear")
        gguf = write_gguf_adapter(tmp_path / f"{rank}.gguf", pairs, 16, heads=(config.num_attention_heads,) * 2)
        for adapter_slot, file in ((2 * slot, peft), (2 * slot + 1, gguf)):
            fit_adapter(model, "stories-15m", open_adapter(file)).attach(adapter_slot)
            expected.append(transformers_logits(merged(state, pairs, 16), config))
    with ops.use_backend(backend):
        got = adapted_logits(model, [TOKENS] * 5, [-1, 0, 1, 2, 3], record=True)
    differences = [(ours - theirs).abs().max().item() for ours, theirs in zip(got, expected, strict=True)]
    print(backend, differences, expected[1].abs().max().item())
    assert max(differences) <= 1e-4
    assert (expected[0] - expected[1]).abs().max() > 1  # the adapters matter
