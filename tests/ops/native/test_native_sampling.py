"""Native sampling draws the reference's tokens, whatever else is in the batch and however many threads there are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from antiphon.ops import SamplingRows, native
from antiphon.ops.reference import sampling as reference

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")


def random_rows(count: int, generator: torch.Generator) -> SamplingRows:
    """Rows with every mix of settings, some of them greedy."""

    def some(value: Tensor, other: float) -> Tensor:
        return torch.where(torch.rand(count, generator=generator) < 0.5, value, torch.full_like(value, other))

    return SamplingRows(
        temperature=torch.rand(count, generator=generator) * 1.6 * (torch.rand(count, generator=generator) > 0.1),
        top_k=some(torch.randint(1, 200, (count,), generator=generator).int(), 0),
        top_p=some(torch.rand(count, generator=generator), 1),
        min_p=some(torch.rand(count, generator=generator) * 0.2, 0),
        seed=torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator),
        index=torch.randint(0, 2**40, (count,), generator=generator),
    )


@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
@pytest.mark.parametrize("kind", ["plain", "steep", "ties", "masked"])
@pytest.mark.parametrize("vocabulary", [1, 3, 64, 1000, 4097, 20011])
def test_tokens_are_the_reference_s(vocabulary: int, kind: str, variant: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    count = 48 if vocabulary < 5000 else 12
    logits = torch.randn(count, vocabulary, generator=generator) * (5 if kind == "steep" else 1.5)
    if kind == "ties":
        logits = (logits * 2).round() / 2
    if kind == "masked":
        logits[torch.rand(logits.shape, generator=generator) < 0.9] = -float("inf")
        logits[:, -1] = 1.0
    rows = random_rows(count, generator)
    tokens, logprobs = native.sample(logits, rows, variant=variant)
    expected, expected_logprobs = reference.sample(logits, rows)
    assert torch.equal(tokens, expected)
    torch.testing.assert_close(logprobs, expected_logprobs, atol=2e-5, rtol=1e-5)


def test_neither_rows_nor_threads_change_a_bit() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(6, 30000, generator=generator) * 2
    rows = random_rows(6, generator)
    together = native.sample(logits, rows, threads=1)
    for threads in (2, 5, 7, 64):
        got = native.sample(logits, rows, threads=threads)
        assert torch.equal(got[0], together[0]) and torch.equal(got[1], together[1])
    for row in range(6):
        own = SamplingRows(*(getattr(rows, name)[row : row + 1] for name in SamplingRows.__dataclass_fields__))
        for threads in (1, 3):
            token, logprob = native.sample(logits[row : row + 1], own, threads=threads)
            assert token == together[0][row] and logprob == together[1][row]


@pytest.mark.parametrize("top_p", [0.5, 0.9, 0.999, 0.9999999])
def test_a_flat_nucleus_keeps_what_the_reference_keeps(top_p: float) -> None:
    """Many seeds over one row of which half the vocabulary is kept: draws near the edge show where it lies."""
    logits = (torch.randn(1, 9000, generator=torch.Generator().manual_seed(3)) * 0.3).expand(200, -1)
    rows = SamplingRows(
        torch.full((200,), 0.9), torch.zeros(200).int(), torch.full((200,), top_p), torch.zeros(200),
        torch.arange(200), torch.zeros(200).long(),
    )  # fmt: skip
    assert torch.equal(native.sample(logits, rows)[0], reference.sample(logits, rows)[0])


def test_logits_may_be_strided_or_of_another_dtype() -> None:
    generator = torch.Generator().manual_seed(5)
    wide, rows = torch.randn(8, 500, generator=generator), random_rows(8, generator)
    view = wide[:, 7:307]
    expected = native.sample(view.contiguous(), rows)[0]
    assert torch.equal(native.sample(view, rows)[0], expected)
    assert torch.equal(native.sample(view.T.contiguous().T, rows)[0], expected)
    narrow = view.to(torch.bfloat16)
    assert torch.equal(native.sample(narrow, rows)[0], native.sample(narrow.float(), rows)[0])
    assert native.sample(view[:0], random_rows(0, generator))[0].shape == (0,)


def test_rows_without_a_finite_logit_give_a_token_all_the_same() -> None:
    rows = random_rows(16, torch.Generator().manual_seed(6))
    for value in (float("nan"), -float("inf"), float("inf")):
        tokens, _ = native.sample(torch.full((16, 100), value), rows)
        assert bool(((tokens >= 0) & (tokens < 100)).all())
