"""A model with an adapter has the logits of transformers with the adapter's products merged into the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from antiphon import ops
from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.executor.decoder.forward import Forward
from antiphon.models.base.adapters import adapter_targets, fit_adapter
from antiphon.models.base.model import CausalLM
from antiphon.models.registry import build_model
from antiphon.weights.adapters.open import open_adapter
from antiphon.weights.formats.open import open_checkpoint
from models.test_causal_lm import TOLERANCE, gemma3, gpt2, llama, pair, qwen2, random_tokens
from support.kernels.paged import PagedRunner, Span, build_batch
from support.models.adapters import Pairs, merged, random_pairs, write_gguf_adapter, write_peft
from support.models.llama_cpp import llama_cpp_logits
from support.models.tiny_model import tiny_state, vocabulary, write_gguf

Make = Callable[[], transformers.PretrainedConfig]


@pytest.fixture(params=ops.available_backends())
def backend(request: pytest.FixtureRequest):
    with ops.use_backend(request.param):
        yield request.param


def adapted_logits(model: CausalLM, prompts: Sequence[list[int]], slots: Sequence[int], record: bool) -> list[Tensor]:
    """Logits of prompts that are computed in one step, each with the adapter in its slot."""
    runner = PagedRunner(model, len(prompts), 48)
    spans = [
        Span(prompt, 0, table, wants_all_logits=True) for prompt, table in zip(prompts, runner.tables, strict=True)
    ]
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    adapters = torch.tensor(slots, dtype=torch.int32).repeat_interleave(lengths)
    batch = replace(build_batch(spans, runner.cache.layouts), adapters=adapters)
    logits = Forward(model.decoder(), runner.cache, record)(batch).clone()
    return list(logits.split(lengths.tolist()))


def layers_of(model: CausalLM) -> dict[str, tuple[int, int]]:
    """The shapes of the model's linear layers, by the names that PEFT has for them."""
    return {name: (target.rows, target.linear.weight.columns) for name, target in adapter_targets(model).items()}


def with_adapter(theirs: torch.nn.Module, pairs: Pairs, alpha: float) -> dict[str, Tensor]:
    """The merged state. GPT-2's own products are stored as [inputs, outputs]."""
    state = theirs.state_dict()
    prefix = "transformer." if any(name.startswith("transformer.") for name in state) else ""
    turned = {f"{name}.weight": state[f"{prefix}{name}.weight"] for name in pairs}
    if prefix:
        turned = {name: weight.T for name, weight in turned.items()}
    found = merged(turned, pairs, alpha)
    return state | {prefix + name: weight.T if prefix else weight for name, weight in found.items()}


def logits_with(theirs: torch.nn.Module, state: dict[str, Tensor], tokens: list[int]) -> Tensor:
    """Its logits with other weights; its own stay as they are, which ours share."""
    with torch.no_grad():
        output = torch.func.functional_call(theirs, state, args=(torch.tensor([tokens]),), tie_weights=False)
    logits: Tensor = output.logits[0]
    return logits


@pytest.mark.parametrize("make", [llama, qwen2, gemma3, gpt2], ids=lambda make: make.__name__)
def test_two_adapters_and_the_base_in_one_step(make: Make, backend: str, tmp_path: Path) -> None:
    theirs, ours = pair(make)
    shapes = {f"{name}.weight": torch.empty(shape) for name, shape in layers_of(ours).items()}
    prompts = [random_tokens(length, length) for length in (21, 9, 30, 1)]
    states = {-1: theirs.state_dict()}
    for slot, rank, alpha in ((0, 3, 6), (2, 8, 4)):
        pairs = random_pairs(shapes, rank, slot, [name.removesuffix(".weight") for name in shapes], 0.1)
        wrapped = {("transformer." if make.__name__ == "gpt2" else "") + name: value for name, value in pairs.items()}
        folder = write_peft(tmp_path / str(slot), wrapped, alpha, target_modules="all-linear")
        fit_adapter(ours, "model", open_adapter(folder)).attach(slot)
        states[slot] = with_adapter(theirs, pairs, alpha)
    slots = [2, -1, 0, 2]
    got = adapted_logits(ours, prompts, slots, record=True)
    for index, (prompt, slot) in enumerate(zip(prompts, slots, strict=True)):
        assert (got[index] - logits_with(theirs, states[slot], prompt)).abs().max() <= TOLERANCE
        if backend == "native":  # the reference's matrix product depends on the number of rows
            (alone,) = adapted_logits(ours, [prompt], [slot], record=False)
            assert torch.equal(got[index], alone)
    (base,) = PagedRunner(ours, 1, 48).step([(0, prompts[1], 0)])
    assert torch.equal(base, got[1]) or backend == "reference"


@pytest.mark.parametrize("make", [llama, qwen2], ids=lambda make: make.__name__)
def test_gguf_adapters_compute_the_same(make: Make, backend: str, tmp_path: Path) -> None:
    """llama.cpp's converter interleaves rows of queries and keys for Llama, and for no other."""
    _, ours = pair(make)
    shapes = {f"{name}.weight": torch.empty(shape) for name, shape in layers_of(ours).items()}
    pairs = random_pairs(shapes, 4, 0)
    first = fit_adapter(ours, "model", open_adapter(write_peft(tmp_path / "peft", pairs, 8)))
    path = write_gguf_adapter(tmp_path / "a.gguf", pairs, 8, heads=(4, 2), architecture=make.__name__)
    second = fit_adapter(ours, "model", open_adapter(path))
    first.attach(0)
    second.attach(1)
    tokens = random_tokens(20, 1)
    one, two = adapted_logits(ours, [tokens, tokens], [0, 1], record=True)
    assert torch.equal(one, two) if backend == "native" else torch.allclose(one, two, atol=1e-5)


def test_gguf_adapters_as_llama_cpp_applies_them(tmp_path: Path) -> None:
    """llama.cpp keeps keys and values in 16 bits: its logits differ by 0.03 without an adapter too."""
    size = len(vocabulary())
    state = {
        name: tensor[:size].contiguous() if len(tensor) > size else tensor for name, tensor in tiny_state().items()
    }
    base = write_gguf(tmp_path / "base.gguf", state)
    adapter = write_gguf_adapter(tmp_path / "adapter.gguf", random_pairs(state, 8, 1), 16)
    model = build_model(open_checkpoint(base))
    assert isinstance(model, CausalLM)
    fit_adapter(model, "tiny", open_adapter(adapter)).attach(0)
    tokens = [7 * index % size for index in range(24)]
    plain, adapted = adapted_logits(model, [tokens, tokens], [-1, 0], record=True)
    theirs = torch.from_numpy(llama_cpp_logits(base, tokens, size, adapter))
    assert (adapted - theirs).abs().max() < 0.1
    assert (adapted - plain).abs().max() > 10


def test_an_adapter_for_another_model(tmp_path: Path) -> None:
    _, ours = pair(llama)
    name = "model.layers.0.self_attn.k_proj"
    write_peft(tmp_path / "a", {name: (torch.zeros(4, 64), torch.zeros(48, 4))}, 8)
    with pytest.raises(CheckpointError) as error:
        fit_adapter(ours, "tiny", open_adapter(tmp_path / "a"))
    assert f"'base_model.model.{name}.lora_B.weight' has shape [48, 4]; model 'tiny' needs [32, 4]" in str(error.value)
    write_peft(tmp_path / "b", {name: (torch.zeros(4, 80), torch.zeros(32, 4))}, 8)
    with pytest.raises(CheckpointError, match=r"lora_A.weight' has shape \[4, 80\]; model 'tiny' needs \[4, 64\]"):
        fit_adapter(ours, "tiny", open_adapter(tmp_path / "b"))


@pytest.mark.parametrize("kind", ["peft", "gguf"])
def test_matrices_that_are_not_finite(kind: str, tmp_path: Path) -> None:
    for which, value in ((0, torch.nan), (1, torch.inf)):
        pairs = random_pairs(tiny_state(), 4, 1)
        layer = next(iter(pairs))
        pairs[layer][which][1, 2] = value
        path = (
            write_peft(tmp_path / str(which), pairs, 8)
            if kind == "peft"
            else write_gguf_adapter(tmp_path / f"{which}.gguf", pairs, 8)
        )
        with pytest.raises(CheckpointError, match=r"tensor '.*lora_[abAB].*' has 1 value of NaN or infinity"):
            fit_adapter(build_model(open_checkpoint(write_gguf(tmp_path / "model.gguf"))), "tiny", open_adapter(path))


def test_layers_that_the_model_does_not_have(tmp_path: Path) -> None:
    _, ours = pair(llama)
    write_peft(tmp_path, {"model.layers.0.self_attn.w_proj": (torch.zeros(4, 64), torch.zeros(32, 4))}, 8)
    with pytest.raises(UnsupportedError, match=r"changes 'model\.layers\.0\.self_attn\.w_proj'.* nearest is 'model\."):
        fit_adapter(ours, "tiny", open_adapter(tmp_path))
    write_peft(tmp_path, {"model.layers.7.self_attn.q_proj": (torch.zeros(4, 64), torch.zeros(64, 4))}, 8)
    with pytest.raises(UnsupportedError, match=r"'model\.layers\.7\.self_attn\.q_proj', which model 'tiny'"):
        fit_adapter(ours, "tiny", open_adapter(tmp_path))


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.model."])
def test_wrapped_names(prefix: str, tmp_path: Path) -> None:
    _, ours = pair(llama)
    write_peft(tmp_path, {f"{prefix}layers.1.mlp.up_proj": (torch.ones(4, 64), torch.ones(112, 4))}, 8)
    ((linear, layer),) = fit_adapter(ours, "tiny", open_adapter(tmp_path)).layers
    assert linear is ours.layers[1].mlp.gate_up  # type: ignore[attr-defined]
    assert [(up.first, up.rows.shape[1]) for up in layer.ups] == [(112, 112)]
