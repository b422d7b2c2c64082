"""Kullback-Leibler divergence of next-token distributions from those of a reference.

It is exact: over the whole vocabulary, in 64-bit floats, for every position of a text's beginning. The reference's
log-probabilities are kept in memory, so the number of positions is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.evaluation.subject import Subject

MAX_POSITIONS = 512
MAX_BYTES = 512 << 20
#: Rows that are converted to 64 bits at once, to bound memory.
ROWS = 32


@dataclass(frozen=True)
class Divergence:
    """Divergence in nats by position, and whether the most probable token is the reference's."""

    nats: list[float]
    agrees: list[bool]

    @property
    def mean(self) -> float:
        return sum(self.nats) / len(self.nats)

    @property
    def agreement(self) -> float:
        """Fraction of positions with the same most probable token."""
        return sum(self.agrees) / len(self.agrees)


def compared_tokens(tokens: Sequence[int], vocab_size: int, longest: int) -> list[int]:
    """Return the beginning of a text that is compared: one distribution for each token but the last."""
    positions = max(1, min(MAX_POSITIONS, MAX_BYTES // (4 * vocab_size)))
    return list(tokens[: min(positions + 1, longest)])


def reference_rows(subject: Subject, tokens: Sequence[int]) -> Tensor:
    """Return [positions, vocabulary]: log-probabilities after each position of a text but the last."""
    rows = torch.empty(0)

    def keep(start: int, piece: Tensor) -> None:
        nonlocal rows
        if not len(rows):
            rows = torch.empty(len(tokens) - 1, piece.shape[1])
        rows[start : start + len(piece)] = piece.to("cpu", torch.float32)

    subject.engine.distributions(tokens, keep, model=subject.name)
    return rows


def divergence(subject: Subject, tokens: Sequence[int], reference: Tensor) -> Divergence:
    """Return the divergence of the subject's distributions from the reference's, for the same tokens."""
    nats = torch.zeros(len(reference), dtype=torch.float64)
    agrees = torch.zeros(len(reference), dtype=torch.bool)

    def compare(start: int, piece: Tensor) -> None:
        for first in range(0, len(piece), ROWS):
            theirs = piece[first : first + ROWS].to("cpu")
            at = slice(start + first, start + first + len(theirs))
            nats[at] = kl_rows(reference[at], theirs)
            agrees[at] = reference[at].argmax(-1) == theirs.argmax(-1)

    subject.engine.distributions(tokens, compare, model=subject.name)
    return Divergence(nats.tolist(), agrees.tolist())


def kl_rows(reference: Tensor, other: Tensor) -> Tensor:
    """Return KL(reference || other) of each row of log-probabilities, in nats; never below 0."""
    wide = reference.double()
    return (wide.exp() * (wide - other.double())).nan_to_num(0.0).sum(-1).clamp(min=0.0)
