"""Adapters on real weights, against transformers with the merged weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


def transformers_logits(model: transformers.LlamaForCausalLM, state: dict[str, Tensor]) -> Tensor:
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    with torch.no_grad():
        logits: Tensor = model(torch.tensor([TOKENS])).logits[0]
    return logits


@dataclass(frozen=True)
class Adapted:
    """The files of four adapters, and transformers' logits of the base and of each adapter merged into it."""

    path: Path
    files: list[Path]
    expected: list[Tensor]


@pytest.fixture(scope="module")
def adapted(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Adapted:
    """Ranks 8 and 16, each as PEFT and GGUF."""
    path, folder = model_path("stories-15m"), tmp_path_factory.mktemp("adapters")
    state, config = stories_state(path)
    reference = transformers.LlamaForCausalLM(config).eval()
    files, expected = [], [transformers_logits(reference, state)]
    for rank in (8, 16):
        pairs = random_pairs(state, rank, rank, linear_layers(state), 0.03)
        files.append(write_peft(folder / f"{rank}", pairs, 16, target_modules="all-linear"))
        files.append(write_gguf_adapter(folder / f"{rank}.gguf", pairs, 16, heads=(config.num_attention_heads,) * 2))
        expected += [transformers_logits(reference, merged(state, pairs, 16))] * 2
    return Adapted(path, files, expected)


@pytest.mark.parametrize("backend", ops.available_backends())
def test_stories_with_adapters_on_every_linear_layer(backend: str, adapted: Adapted) -> None:
    """All in one step with the base; within 1e-4 of fp32 weights that are merged."""
    model = build_model(open_checkpoint(adapted.path))
    assert isinstance(model, CausalLM)
    for slot, file in enumerate(adapted.files):
        fit_adapter(model, "stories-15m", open_adapter(file)).attach(slot)
    expected = adapted.expected
    with ops.use_backend(backend):
        got = adapted_logits(model, [TOKENS] * 5, [-1, 0, 1, 2, 3], record=True)
    differences = [(ours - theirs).abs().max().item() for ours, theirs in zip(got, expected, strict=True)]
    print(backend, differences, expected[1].abs().max().item())
    assert max(differences) <= 1e-4
    assert (expected[0] - expected[1]).abs().max() > 1  # the adapters matter
