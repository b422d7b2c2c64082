"""Packed masks on logits, against masks spelled out bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from antiphon.executor.sampling.bitmask import apply_bitmask


def spelled_out(logits: Tensor, masks: list[np.ndarray | None]) -> Tensor:
    expected = logits.clone()
    for row, mask in enumerate(masks):
        if mask is None:
            continue
        words = [int(word) & 0xFFFFFFFF for word in mask]
        for token in range(logits.shape[1]):
            if token // 32 >= len(words) or not words[token // 32] >> (token % 32) & 1:
                expected[row, token] = -torch.inf
    return expected


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 5),
    vocab_size=st.integers(1, 150),
    num_words=st.integers(0, 6),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
)
def test_bits_decide(rows: int, vocab_size: int, num_words: int, seed: int, dtype: torch.dtype) -> None:
    """Whatever the lengths: a mask may be shorter or longer than the vocabulary, and rows may have none."""
    source = np.random.default_rng(seed)
    logits = torch.from_numpy(source.standard_normal((rows, vocab_size))).to(dtype)
    masks = [
        None if source.random() < 0.3 else source.integers(-(2**31), 2**31, num_words).astype(np.int32)
        for _ in range(rows)
    ]
    expected = spelled_out(logits, masks)
    apply_bitmask(logits, masks)
    assert torch.equal(logits, expected)


def test_a_view_of_larger_logits_is_changed_in_place() -> None:
    logits = torch.zeros(4, 64)
    apply_bitmask(logits[1:3], [np.array([1, 0], np.int32), np.array([0, 2], np.uint32)])
    assert logits[0].isfinite().all() and logits[3].isfinite().all()
    assert logits[1].isfinite().nonzero().flatten().tolist() == [0]
    assert logits[2].isfinite().nonzero().flatten().tolist() == [33]


def test_infinite_logits_stay_defined() -> None:
    logits = torch.tensor([[torch.inf, -torch.inf, torch.inf, 3.0]])
    apply_bitmask(logits, [np.array([0b1001], np.int32)])
    assert logits.tolist() == [[torch.inf, -torch.inf, -torch.inf, 3.0]]


def test_nothing_to_do() -> None:
    logits = torch.randn(2, 10)
    before = logits.clone()
    apply_bitmask(logits, [None, None])
    apply_bitmask(logits[:0], [])
    assert torch.equal(logits, before)


def test_one_mask_per_row() -> None:
    with pytest.raises(ValueError, match="1 masks for 2 rows"):
        apply_bitmask(torch.zeros(2, 8), [None])
