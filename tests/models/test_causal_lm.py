"""Every decoder architecture, on a tiny random config, equals transformers: whole, in chunks, and in mixed batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers

from antiphon import ops
from antiphon.models.base.model import CausalLM
from antiphon.models.registry import build_model
from antiphon.ops.device import Device, DeviceLimits
from antiphon.runtime.loading.weight_forms import LoadReport, prepare
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.engine.placement import stray_tensors
from support.kernels.paged import PagedRunner

TOLERANCE = 1e-4
VOCAB = 97

SMALL = dict(
    vocab_size=VOCAB,
    hidden_size=64,
    intermediate_size=112,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
)


def llama() -> transformers.PretrainedConfig:
    return transformers.LlamaConfig(**SMALL, tie_word_embeddings=False)


def llama_biased_tied() -> transformers.PretrainedConfig:
    return transformers.LlamaConfig(**SMALL, attention_bias=True, tie_word_embeddings=True)


def llama3() -> transformers.PretrainedConfig:
    scaling = dict(
        rope_type="llama3",
        rope_theta=500000.0,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=32,
    )
    return transformers.LlamaConfig(**SMALL, rope_parameters=scaling)


def mistral_window() -> transformers.PretrainedConfig:
    return transformers.MistralConfig(**SMALL, sliding_window=7, head_dim=16)


def qwen2() -> transformers.PretrainedConfig:
    return transformers.Qwen2Config(**SMALL, tie_word_embeddings=True)


def qwen3() -> transformers.PretrainedConfig:
    return transformers.Qwen3Config(**SMALL, head_dim=32)


def gemma3() -> transformers.PretrainedConfig:
    return transformers.Gemma3TextConfig(
        **(SMALL | dict(num_hidden_layers=7)),
        head_dim=32,
        sliding_window=9,
        query_pre_attn_scalar=24,
    )


def gpt2() -> transformers.PretrainedConfig:
    return transformers.GPT2Config(vocab_size=VOCAB, n_embd=64, n_layer=3, n_head=4, n_positions=128)


CONFIGS = [llama, llama_biased_tied, llama3, mistral_window, qwen2, qwen3, gemma3, gpt2]


def randomize(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights large enough that every term matters; norms and biases away from their neutral start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm = parameter.dim() == 1 and "weight" in name
            parameter.copy_(parameter + 0.2 * noise if is_norm else 0.12 * noise)
    return model.eval()


def pair(make: Callable[[], transformers.PretrainedConfig]) -> tuple[torch.nn.Module, CausalLM]:
    config = make()
    theirs = randomize(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    state = {name: tensor for name, tensor in theirs.state_dict().items() if not name.endswith("inv_freq")}
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    checkpoint = StateDictCheckpoint(state, config.model_type, config.to_dict())
    ours = build_model(checkpoint)
    assert isinstance(ours, CausalLM)
    assert checkpoint.unused() == []
    return theirs, ours


def reference_logits(model: torch.nn.Module, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def random_tokens(count: int, seed: int) -> list[int]:
    return torch.randint(0, VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(params=ops.available_backends())
def backend(request: pytest.FixtureRequest):
    with ops.use_backend(request.param):
        yield request.param


@pytest.fixture(params=CONFIGS, ids=lambda make: make.__name__)
def models(request: pytest.FixtureRequest) -> tuple[torch.nn.Module, CausalLM]:
    return pair(request.param)


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.mark.usefixtures("backend")
def test_one_prompt(models: tuple[torch.nn.Module, CausalLM]) -> None:
    theirs, ours = models
    tokens = random_tokens(41, 1)
    (logits,) = PagedRunner(ours, 1, 48).step([(0, tokens, 0)])
    expected = reference_logits(theirs, tokens)
    assert expected.std() > 0.1
    assert difference(logits, expected) <= TOLERANCE


@pytest.mark.usefixtures("backend")
def test_chunked_prompt(models: tuple[torch.nn.Module, CausalLM]) -> None:
    theirs, ours = models
    tokens = random_tokens(41, 2)
    runner = PagedRunner(ours, 1, 48)
    parts, start = [], 0
    for size in (1, 7, 16, 3, 1, 1, 12):
        parts += runner.step([(0, tokens[start : start + size], start)])
        start += size
    assert start == len(tokens)
    assert difference(torch.cat(parts), reference_logits(theirs, tokens)) <= TOLERANCE


@pytest.mark.usefixtures("backend")
def test_mixed_batch(models: tuple[torch.nn.Module, CausalLM]) -> None:
    """Four requests of different lengths, their chunks and single tokens interleaved in shared steps."""
    theirs, ours = models
    prompts = [random_tokens(length, 10 + row) for row, length in enumerate((9, 30, 17, 24))]
    runner = PagedRunner(ours, len(prompts), 32, seed=3)
    done = [0] * len(prompts)
    got: list[list[torch.Tensor]] = [[] for _ in prompts]
    generator = torch.Generator().manual_seed(5)
    while any(d < len(p) for d, p in zip(done, prompts, strict=True)):
        spans = []
        for row, prompt in enumerate(prompts):
            size = int(torch.randint(0, 8, (1,), generator=generator))
            size = min(1 if size < 4 else size, len(prompt) - done[row])
            if size:
                spans.append((row, prompt[done[row] : done[row] + size], done[row]))
        for (row, tokens, _), logits in zip(spans, runner.step(spans), strict=True):
            got[row].append(logits)
            done[row] += len(tokens)
    for prompt, parts in zip(prompts, got, strict=True):
        assert difference(torch.cat(parts), reference_logits(theirs, prompt)) <= TOLERANCE


def test_no_tensor_stays_behind(models: tuple[torch.nn.Module, CausalLM]) -> None:
    assert stray_tensors(models[1]) == []


def test_activations_in_16_bits(models: tuple[torch.nn.Module, CausalLM]) -> None:
    """The residual stream and the logits stay in 32 bits, and the result stays near."""
    theirs, ours = models
    tokens = random_tokens(41, 1)
    reference = ops.get_backend("reference")
    device = Device(torch.device("cpu"), reference, torch.bfloat16, DeviceLimits("CPU", 0))
    with ops.use_backend("reference"):
        prepare(ours, LoadReport(), device=device)
        (logits,) = PagedRunner(ours, 1, 48).step([(0, tokens, 0)])
    expected = reference_logits(theirs, tokens)
    assert logits.dtype is torch.float32
    assert 1e-4 < difference(logits, expected) <= 0.06 * expected.abs().max()
