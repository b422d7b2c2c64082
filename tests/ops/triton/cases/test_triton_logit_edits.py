"""Logit edits by the Triton kernels are the reference's."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from antiphon.ops import LogitEditRows, Penalties, TokenCounts, TokenLists, TokenMasks
from antiphon.ops.reference import logits as reference
from antiphon.ops.triton import logits as own

T = TypeVar("T")
ROWS = 4


def copied(value: T, device: torch.device) -> T:
    """A copy of a tensor, or of all tensors of a dataclass."""
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    if not is_dataclass(value):
        return value
    return type(value)(**{part.name: copied(getattr(value, part.name), device) for part in fields(value)})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a row and of a list."""
    monkeypatch.setattr(own, "WIDE", 256)
    monkeypatch.setattr(own, "NARROW", 16)


def some_lists(vocabulary: int, longest: int, generator: torch.Generator, valued: bool = False) -> TokenLists:
    lengths = torch.randint(0, longest, (ROWS,), generator=generator)
    lengths[1] = 0
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()
    ids = torch.cat([torch.randperm(vocabulary, generator=generator)[:length] for length in lengths.tolist()]).int()
    values = torch.randn(len(ids), generator=generator) if valued else None
    if values is not None:
        values[::5] = -torch.inf
    return TokenLists(starts, ids, values)


def some_counts(vocabulary: int, generator: torch.Generator) -> TokenCounts:
    ids = torch.stack([torch.randperm(vocabulary, generator=generator)[:40] for _ in range(5)]).int()
    counts = torch.randint(0, 3, (5, 40), generator=generator).int()
    return TokenCounts(ids, counts, torch.tensor([0, 40, 7, 30, 1], dtype=torch.int32))


def some_edits(vocabulary: int, kind: str, generator: torch.Generator) -> LogitEditRows:
    spans = torch.randint(0, vocabulary, (ROWS, 5), generator=generator).int().sort(-1).values[:, [0, 4, 1, 2, 3]]
    spans[2, 4] = -1
    masks = torch.randint(0, 256, (2, -(-vocabulary // 8)), generator=generator, dtype=torch.uint8)
    values = torch.tensor([[1.3, 0.2, 0.1], [1.0, 0.0, 0.5], [0.8, -0.3, 0.0], [1.0, 0.0, 0.0]])
    slots = torch.tensor([3, 1, -1, 2], dtype=torch.int32)
    parts = {
        "masks": TokenMasks(masks, torch.tensor([1, -1, 0, 1], dtype=torch.int32)),
        "allowed": some_lists(vocabulary, vocabulary, generator),
        "banned": some_lists(vocabulary, 9, generator),
        "spans": spans.contiguous(),
        "bias": some_lists(vocabulary, 20, generator, valued=True),
        "penalties": Penalties(values, slots, some_counts(vocabulary, generator)),
        "typical": torch.tensor([[0.5, 0.8], [0.9, 1.3], [1.0, 1.0], [0.7, 0.0]]),
    }
    return LogitEditRows(**(parts if kind == "all" else {kind: parts[kind]}))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["masks", "allowed", "banned", "spans", "bias", "penalties", "typical", "all"])
def test_edits_are_the_reference_s(kind: str, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(len(kind))
    vocabulary = 600
    edits = some_edits(vocabulary, kind, generator)
    expected = torch.randn(ROWS, vocabulary + 9, generator=generator) * 3
    whole, on_device = copied(expected, device), copied(edits, device)
    reference.edit_logits(expected[:, :vocabulary], edits)
    own.edit_logits(whole[:, :vocabulary], on_device)
    torch.testing.assert_close(whole.cpu(), expected, rtol=2e-6, atol=2e-6)
    assert whole.isinf().any() or kind == "penalties"


@pytest.mark.parametrize("lift", [-8.0, 8.0])
def test_timestamps_and_text(lift: float, device: torch.device) -> None:
    logits = torch.randn(2, 700, generator=torch.Generator().manual_seed(1))
    logits[:, 500:] += lift
    edits = LogitEditRows(spans=torch.tensor([[0, 700, 499, 520, 500], [0, 700, 0, 0, -1]], dtype=torch.int32))
    edited = copied(logits, device)
    reference.edit_logits(logits, edits)
    own.edit_logits(edited, copied(edits, device))
    assert torch.equal(edited.cpu(), logits) and logits[0, :499].isfinite().any() == (lift < 0)


def test_counts_are_the_reference_s(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(5)
    expected = some_counts(60, generator)
    expected.num_ids[1] = 33
    counts = copied(expected, device)
    for _ in range(6):
        slots = torch.randperm(6, generator=generator)[:4].int() - 1
        tokens = torch.randint(0, 60, (4,), generator=generator)
        own.count_tokens(counts, slots.to(device), tokens.to(device))
        reference.count_tokens(expected, slots, tokens)
    for slot, used in enumerate(expected.num_ids.tolist()):
        assert counts.num_ids[slot] == used
        assert torch.equal(counts.ids[slot, :used].cpu(), expected.ids[slot, :used])
        assert torch.equal(counts.counts[slot, :used].cpu(), expected.counts[slot, :used])
