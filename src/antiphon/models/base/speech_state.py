"""What a synthesiser knows of its utterances between two stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Utterance:
    """The input of one request: phoneme ids with padding around them."""

    ids: Sequence[int]
    style: Tensor  # of the voice; empty for a model with one voice
    speed: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Speech:
    """An utterance as samples [N], with the number of samples of each of its ids, in order."""

    samples: Tensor
    id_samples: list[int]


@dataclass(frozen=True)
class SpeechState:
    """The state of some utterances between two stages, one row each.

    `tensors` are padded [B, …]; `lengths` are counts [B] by name.
    """

    utterances: tuple[Utterance, ...]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    lengths: Mapping[str, Tensor] = field(default_factory=dict)

    def with_(self, lengths: Mapping[str, Tensor] | None = None, **tensors: Tensor) -> Self:
        """A state with more tensors and lengths."""
        return replace(self, tensors={**self.tensors, **tensors}, lengths={**self.lengths, **(lengths or {})})

    def without(self, *names: str) -> Self:
        return replace(self, tensors={name: value for name, value in self.tensors.items() if name not in names})

    def take(self, rows: Sequence[int]) -> Self:
        """The state of some of the rows."""
        if list(rows) == list(range(len(self.utterances))):
            return self
        index = torch.tensor(rows)
        return replace(
            self,
            utterances=tuple(self.utterances[row] for row in rows),
            tensors={name: value[index] for name, value in self.tensors.items()},
            lengths={name: value[index] for name, value in self.lengths.items()},
        )


def join(states: Sequence[SpeechState]) -> SpeechState:
    """One state with the rows of several, padded with zeros to the longest."""
    first = states[0]
    if len(states) == 1:
        return first
    return SpeechState(
        tuple(utterance for state in states for utterance in state.utterances),
        {name: _stacked([state.tensors[name] for state in states]) for name in first.tensors},
        {name: torch.cat([state.lengths[name] for state in states]) for name in first.lengths},
    )


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Tensors [B, …] or [B, T, …] concatenated along the first dimension, padded to the longest."""
    if parts[0].dim() < 2 or len({part.shape[1] for part in parts}) == 1:
        return torch.cat(list(parts))
    out = parts[0].new_zeros(sum(map(len, parts)), max(part.shape[1] for part in parts), *parts[0].shape[2:])
    row = 0
    for part in parts:
        out[row : row + len(part), : part.shape[1]] = part
        row += len(part)
    return out


def flatten(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ids end to end, their positions, where each row starts, and the rows' lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
    positions = torch.cat([torch.arange(len(row), dtype=torch.int32) for row in rows])
    starts = torch.zeros(len(rows) + 1, dtype=torch.int32)
    starts[1:] = lengths.cumsum(0)
    return ids, positions, starts, lengths


#: Applies a function of one state to several.
ForEach = Callable[[Callable[[SpeechState], SpeechState], Sequence[SpeechState]], list[SpeechState]]
