"""Sampling against the exact distribution."""

from __future__ import annotations

import pytest
import torch

from antiphon import ops
from antiphon.ops import SamplingRows
from support.kernels.conformance import TOLERANCE, checks, relative


def rows(count: int, **changes: object) -> SamplingRows:
    base: dict[str, object] = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, index=0)
    dtypes = dict(
        temperature=torch.float32, top_k=torch.int32, top_p=torch.float32, min_p=torch.float32, seed=torch.int64,
        index=torch.int64,
    )  # fmt: skip
    values = base | changes
    fields = {name: torch.as_tensor(value, dtype=dtypes[name]).expand(count).clone() for name, value in values.items()}
    return SamplingRows(**fields)


@checks("sample")
def test_sample_greedy_and_logprobs(generator: torch.Generator) -> None:
    logits = torch.randn(5, 300, generator=generator) * 3
    tokens, logprobs = ops.sample(logits, rows(5, temperature=0.0))
    assert torch.equal(tokens, logits.argmax(-1))
    expected = logits.double().log_softmax(-1)[torch.arange(5), tokens]
    assert relative(logprobs, expected) < TOLERANCE


def test_sample_does_not_depend_on_the_batch(generator: torch.Generator) -> None:
    logits = torch.randn(8, 500, generator=generator)
    seeds, index = torch.arange(8) * 2**33 + 5, torch.arange(8) * 3
    settings = dict(temperature=torch.linspace(0, 2, 8), top_k=torch.arange(8) * 7, top_p=torch.linspace(0.5, 1, 8))
    together, _ = ops.sample(logits, rows(8, seed=seeds, index=index, **settings))
    for row in range(8):
        own = {name: value[row] for name, value in settings.items()}
        alone, _ = ops.sample(logits[row : row + 1], rows(1, seed=seeds[row], index=index[row], **own))
        assert alone[0] == together[row]


@pytest.mark.parametrize("settings", [{}, dict(top_k=4), dict(top_p=0.7), dict(min_p=0.2), dict(temperature=0.5)])
def test_sample_follows_the_distribution(settings: dict[str, float], generator: torch.Generator) -> None:
    """20,000 draws with different seeds against the exact probabilities: chi-squared under its 99.9 % bound."""
    draws = 20_000
    logits = torch.randn(12, generator=generator) * 1.5
    p = (logits.double() / settings.get("temperature", 1.0)).softmax(-1)
    order = p.argsort(descending=True)
    keep = torch.ones(12, dtype=torch.bool)
    if "top_k" in settings:
        keep[order[int(settings["top_k"]) :]] = False
    if "top_p" in settings:
        before = p[order].cumsum(0) - p[order]
        keep[order[before >= settings["top_p"]]] = False
    if "min_p" in settings:
        keep &= p >= settings["min_p"] * p.max()
    p = torch.where(keep, p, 0.0)
    p /= p.sum()
    tokens, _ = ops.sample(logits.expand(draws, -1), rows(draws, seed=torch.arange(draws), **settings))
    counts = torch.bincount(tokens, minlength=12).double()
    assert not counts[~keep].any()
    expected = p[keep] * draws
    chi_squared = ((counts[keep] - expected) ** 2 / expected).sum().item()
    assert chi_squared < 33  # 11 degrees of freedom, p = 0.0005
