"""Logit edits by the Triton kernels are the reference's.

The cases run under Triton's interpreter, in a process of their own that is started with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from antiphon.ops import LogitEditRows, Penalties, TokenCounts, TokenLists, TokenMasks
from antiphon.ops.reference import logits as reference

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="Triton's interpreter is not in use")
ROWS = 4


@pytest.mark.skipif(INTERPRETED or find_spec("triton") is None, reason="Triton is not installed")
def test_under_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", __file__]
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-8000:] + done.stderr[-2000:]


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


@interpreted
@pytest.mark.parametrize("kind", ["masks", "allowed", "banned", "spans", "bias", "penalties", "typical", "all"])
def test_edits_are_the_reference_s(kind: str) -> None:
    from antiphon.ops.triton import logits as own

    own.WIDE, own.NARROW = 256, 16  # several parts of a row and of a list
    generator = torch.Generator().manual_seed(len(kind))
    vocabulary = 600
    edits = some_edits(vocabulary, kind, generator)
    whole = torch.randn(ROWS, vocabulary + 9, generator=generator) * 3
    expected = whole.clone()
    reference.edit_logits(expected[:, :vocabulary], edits)
    own.edit_logits(whole[:, :vocabulary], edits)
    torch.testing.assert_close(whole, expected, rtol=2e-6, atol=2e-6)
    assert not torch.equal(whole.isinf(), torch.zeros_like(whole).bool()) or kind == "penalties"


@interpreted
@pytest.mark.parametrize("lift", [-8.0, 8.0])
def test_timestamps_and_text(lift: float) -> None:
    from antiphon.ops.triton import logits as own

    logits = torch.randn(2, 700, generator=torch.Generator().manual_seed(1))
    logits[:, 500:] += lift
    edits = LogitEditRows(spans=torch.tensor([[0, 700, 499, 520, 500], [0, 700, 0, 0, -1]], dtype=torch.int32))
    expected = logits.clone()
    reference.edit_logits(expected, edits)
    own.edit_logits(logits, edits)
    assert torch.equal(logits, expected) and logits[0, :499].isfinite().any() == (lift < 0)


@interpreted
def test_counts_are_the_reference_s() -> None:
    from antiphon.ops.triton import logits as own

    own.NARROW = 16
    generator = torch.Generator().manual_seed(5)
    counts = some_counts(60, generator)
    counts.num_ids[1] = 33
    expected = TokenCounts(counts.ids.clone(), counts.counts.clone(), counts.num_ids.clone())
    for _ in range(6):
        slots = torch.randperm(6, generator=generator)[:4].int() - 1
        tokens = torch.randint(0, 60, (4,), generator=generator)
        own.count_tokens(counts, slots, tokens)
        reference.count_tokens(expected, slots, tokens)
    for slot, used in enumerate(expected.num_ids.tolist()):
        assert counts.num_ids[slot] == used
        assert torch.equal(counts.ids[slot, :used], expected.ids[slot, :used])
        assert torch.equal(counts.counts[slot, :used], expected.counts[slot, :used])
