"""Logit edits against plain computations in double precision, one row and one token at a time."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.ops import LogitEditRows, Penalties, TokenCounts, TokenLists, TokenMasks
from support.kernels.conformance import checks

VOCAB = 77


def lists(rows: list[list[int]], values: list[list[float]] | None = None) -> TokenLists:
    starts = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0).int()
    flat = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
    return TokenLists(starts, flat, None if values is None else torch.tensor([v for row in values for v in row]))


def kept(logits: Tensor) -> list[list[int]]:
    return [row.isfinite().nonzero().flatten().tolist() for row in logits]


def pack(allowed: list[list[int]]) -> Tensor:
    bits = torch.zeros(len(allowed), -(-VOCAB // 8), dtype=torch.uint8)
    for row, tokens in enumerate(allowed):
        for token in tokens:
            bits[row, token // 8] |= 1 << token % 8
    return bits


@checks("edit_logits")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masks_allowed_and_banned(dtype: torch.dtype, generator: torch.Generator) -> None:
    logits = torch.randn(5, VOCAB, generator=generator).to(dtype)
    logits[0, 3] = torch.inf
    before = logits.clone()
    edits = LogitEditRows(
        masks=TokenMasks(pack([[1, 3, 70, 76], [2, 9, 10]]), torch.tensor([0, -1, 1, 0, -1], dtype=torch.int32)),
        allowed=lists([[], [4, 5], [9, 10, 11], [], []]),
        banned=lists([[70], [5], [], [1, 3, 50], []]),
    )
    ops.edit_logits(logits, edits)
    found = (logits > -torch.inf).nonzero().tolist()
    expected = [[1, 3, 76], [4], [9, 10], [70, 76], list(range(VOCAB))]
    assert [[token for row, token in found if row == wanted] for wanted in range(5)] == expected
    assert torch.equal(logits[logits > -torch.inf], before[logits > -torch.inf])


def test_bias_is_added_and_minus_infinity_bans(generator: torch.Generator) -> None:
    logits = torch.randn(3, VOCAB, generator=generator)
    logits[2, 6] = torch.inf
    expected = logits.clone()
    expected[0, 2] += 1.5
    expected[0, 76] -= 100
    expected[2, 6] = -torch.inf
    ops.edit_logits(logits, LogitEditRows(bias=lists([[2, 76], [], [6]], [[1.5, -100.0], [], [-math.inf]])))
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("lift", [-8.0, 8.0])
def test_spans_and_timestamps(lift: float, generator: torch.Generator) -> None:
    """Together the timestamps win over the likeliest text, or they do not; a row without them is left alone."""
    logits = torch.randn(3, VOCAB, generator=generator)
    logits[:, 60:] += lift
    whole = [0, VOCAB, 0, 0, -1]
    ops.edit_logits(logits, LogitEditRows(spans=torch.tensor([[5, 70, 20, 62, 60], whole, [0, 9, 4, 4, -1]]).int()))
    text = list(range(5, 20)) if lift < 0 else []
    assert kept(logits) == [text + list(range(62, 70)), list(range(VOCAB)), list(range(9))]


def test_timestamps_win_by_their_sum() -> None:
    """Ten timestamps of logit 0 have a sum of log 10; the likeliest text decides."""
    for likeliest, wins in ((math.log(10) - 1e-3, True), (math.log(10) + 1e-3, False)):
        logits = torch.full((1, VOCAB), -50.0)
        logits[0, 60:70] = 0
        logits[0, 70:] = -torch.inf
        logits[0, 7] = likeliest
        ops.edit_logits(logits, LogitEditRows(spans=torch.tensor([[0, VOCAB, 0, 0, 60]], dtype=torch.int32)))
        assert logits[0, 7].isfinite() != wins


def test_no_timestamp_is_left() -> None:
    logits = torch.zeros(1, VOCAB)
    ops.edit_logits(logits, LogitEditRows(spans=torch.tensor([[0, 60, 0, 0, 60]], dtype=torch.int32)))
    assert kept(logits) == [list(range(60))]


@checks("count_tokens", "edit_logits")
def test_penalties_of_counted_tokens(generator: torch.Generator) -> None:
    """Tokens are counted by slot as they are drawn; rows read the slot that is theirs."""
    slots, capacity = 4, 40
    poison = (torch.full((slots, capacity), 7, dtype=torch.int32) for _ in range(2))
    counts = TokenCounts(*poison, torch.zeros(slots, dtype=torch.int32))
    counts.ids[2, :2], counts.counts[2, :2], counts.num_ids[2] = torch.tensor([50, 7]), 0, 2  # a prompt
    drawn: dict[int, Counter[int]] = {slot: Counter() for slot in range(slots)}
    for _ in range(30):
        active = torch.randperm(slots + 1, generator=generator)[:3] - 1
        tokens = torch.randint(0, 20, (3,), generator=generator)
        ops.count_tokens(counts, active.int(), tokens)
        for slot, token in zip(active.tolist(), tokens.tolist(), strict=True):
            if slot >= 0:
                drawn[slot][token] += 1
    logits = torch.randn(4, VOCAB, generator=generator) * 3
    expected = logits.double().tolist()
    rows = [2, -1, 0, 3]
    values = [(1.5, 0.25, 0.125), (1.0, 0.0, 0.0), (1.0, 0.5, -0.25), (0.7, 0.0, 0.0)]
    for row, (slot, (repetition, presence, frequency)) in enumerate(zip(rows, values, strict=True)):
        for token in {*drawn.get(slot, ()), *((50, 7) if slot == 2 else ())}:
            value = expected[row][token]
            expected[row][token] = value / repetition if value > 0 else value * repetition
            if times := drawn[slot][token]:
                expected[row][token] -= presence + frequency * times
    penalties = Penalties(torch.tensor(values), torch.tensor(rows, dtype=torch.int32), counts)
    ops.edit_logits(logits, LogitEditRows(penalties=penalties))
    torch.testing.assert_close(logits.double(), torch.tensor(expected).double(), rtol=1e-5, atol=1e-5)


def test_typical_keeps_the_tokens_nearest_to_the_entropy(generator: torch.Generator) -> None:
    logits = torch.randn(4, VOCAB, generator=generator) * 2
    logits[1, 10:40] = -torch.inf
    settings = [(0.6, 1.0), (0.9, 0.5), (1.0, 1.0), (0.5, 0.0)]
    expected = []
    for row, (typical_p, temperature) in zip(logits.double(), settings, strict=True):
        if typical_p == 1 or temperature == 0:
            expected.append(row.isfinite().nonzero().flatten().tolist())
            continue
        p = (row / temperature).softmax(-1)
        entropy = -sum(float(x * x.log()) for x in p if x > 0)
        order = sorted(range(VOCAB), key=lambda token: abs(-float(p[token].log()) - entropy))
        total, chosen = 0.0, []
        for token in order:
            if chosen and total >= typical_p:
                break
            chosen.append(token)
            total += float(p[token])
        expected.append(sorted(chosen))
    ops.edit_logits(logits, LogitEditRows(typical=torch.tensor(settings)))
    assert kept(logits) == expected


def test_no_edits_change_nothing(generator: torch.Generator) -> None:
    logits = torch.randn(3, VOCAB, generator=generator)
    before = logits.clone()
    assert not LogitEditRows()
    ops.edit_logits(logits, LogitEditRows())
    ops.count_tokens(
        TokenCounts(*(torch.zeros(1, 4, dtype=torch.int32) for _ in range(2)), torch.zeros(1, dtype=torch.int32)),
        torch.full((3,), -1, dtype=torch.int32), torch.zeros(3, dtype=torch.int64),
    )  # fmt: skip
    assert torch.equal(logits, before)
