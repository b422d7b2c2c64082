"""Steps of every decoder architecture on the Triton backend: the reference's logits, without the reference's help."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import transformers

from antiphon import ops
from antiphon.models.base.model import CausalLM
from antiphon.ops import reference, triton
from antiphon.ops.backend import Backend, Implementation, Operation, use_operations
from models.test_causal_lm import CONFIGS, VOCAB, gpt2, pair, qwen3, random_tokens
from support.kernels.paged import PagedRunner, Span, build_batch

#: What a decoder's step may leave to PyTorch's operations as the reference calls them: sums of two tensors.
ALLOWED = {"add"}
#: Architectures that run always, with one layer; the others have two, of all kinds of layers that they have.
FAST = (qwen3, gpt2)

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="the models are on the CPU"),
    pytest.mark.usefixtures("few_programs"),
]


def reject(operation: Operation) -> Implementation:
    if operation.name in ALLOWED:
        return operation.reference
    raise AssertionError(f"{operation.name} has no kernel of the Triton backend")


def closed(monkeypatch: pytest.MonkeyPatch, *modules: object) -> Backend:
    """The backend of these functions with every way to the reference closed, those inside its own functions too."""
    for module in (reference.attention, reference.product, reference.rows, reference.sampling, reference.logits):
        for name in ops.OPERATIONS:
            if hasattr(module, name) and name not in ALLOWED:
                monkeypatch.setattr(module, name, lambda *_, name=name, **__: pytest.fail(f"the reference's {name}"))
    return Backend("triton", modules, reject)


@pytest.fixture
def own_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    with use_operations(closed(monkeypatch, triton.functions)) as backend:
        yield backend


@pytest.fixture
def invariant_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    with use_operations(closed(monkeypatch, triton.invariant_functions, triton.functions)) as backend:
        yield backend


@pytest.mark.parametrize(
    "make", [pytest.param(make, marks=() if make in FAST else pytest.mark.soak) for make in CONFIGS]
)
def test_steps(make: Callable[[], transformers.PretrainedConfig], request: pytest.FixtureRequest) -> None:
    check_steps(make, request, "own_kernels")


@pytest.mark.soak
@pytest.mark.parametrize("make", CONFIGS)
def test_batch_invariant_steps(
    make: Callable[[], transformers.PretrainedConfig], request: pytest.FixtureRequest
) -> None:
    check_steps(make, request, "invariant_kernels")


def check_steps(
    make: Callable[[], transformers.PretrainedConfig], request: pytest.FixtureRequest, kernels: str
) -> None:
    _, model = pair(lambda: shortened(make(), 1 if make in FAST else 2))
    prompts = [random_tokens(4, 1), random_tokens(6, 2)]
    with ops.use_backend("reference"):
        expected = steps(model, prompts)
    request.getfixturevalue(kernels)
    got = steps(model, prompts)
    assert all((a - b).abs().max() < 1e-4 for a, b in zip(got, expected, strict=True))


def shortened(config: transformers.PretrainedConfig, layers: int) -> transformers.PretrainedConfig:
    """Return the architecture with its last layers alone."""
    config.num_hidden_layers = layers
    if hasattr(config, "layer_types"):
        config.layer_types = config.layer_types[-layers:]
    return config


def steps(model: CausalLM, prompts: list[list[int]]) -> list[torch.Tensor]:
    """A chunk of one prompt, then a decode beside a chunk of the other, then two decodes; the last logits of each."""
    runner = PagedRunner(model, 2, 32)

    def run(*spans: tuple[int, list[int], int], decodes: int = 0) -> torch.Tensor:
        full = [Span(tokens, start, runner.tables[row]) for row, tokens, start in spans]
        batch = build_batch(full, runner.cache.layouts)
        for group in batch.groups.values():
            object.__setattr__(group, "num_decodes", decodes)
        return model.forward(batch, runner.cache)

    first, second = prompts
    return [
        run((0, first[:3], 0)),
        run((0, first[3:], 3), (1, second[:5], 0), decodes=1),
        run((0, [5], 4), (1, second[5:], 5), decodes=2),
    ]


def test_the_choice_of_tokens(own_kernels: Backend) -> None:
    generator = torch.Generator().manual_seed(0)
    ones, whole = torch.ones(2), torch.zeros(2, dtype=torch.int64)
    rows = ops.SamplingRows(ones, torch.tensor([0, 3]).int(), 0.9 * ones, 0 * ones, whole, whole)
    tokens, logprobs = ops.sample(torch.randn(2, VOCAB, generator=generator), rows)
    assert tokens.shape == (2,) and logprobs is not None
    assert set(own_kernels.operations) == {"sample"}
