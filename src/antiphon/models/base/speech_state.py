"""State of a synthesiser's utterances between two stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True)
class Utterance:
    """The input of one request: phoneme ids with padding around them."""

    ids: Sequence[int]
    style: Tensor  # of the voice; empty for a model with a single voice
    speed: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Speech:
    """An utterance as samples [N], with the number of samples per id, in order."""

    samples: Tensor
    id_samples: list[int]


@dataclass(frozen=True)
class SpeechState:
    """The state of some utterances between two stages, one row per utterance.

    `tensors` are padded [B, …]; `lengths` are counts [B] by name. Both are on the model's device. Stages never change
    them, so a failed stage can be run again.
    """

    utterances: tuple[Utterance, ...]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    lengths: Mapping[str, Tensor] = field(default_factory=dict)
    #: Frames per id and row: a host copy of the tensor `counts`, if one was made.
    id_frames: tuple[Sequence[int], ...] | None = None

    def with_(self, lengths: Mapping[str, Tensor] | None = None, **tensors: Tensor) -> Self:
        """Return a state with additional or replaced tensors and lengths."""
        return replace(self, tensors={**self.tensors, **tensors}, lengths={**self.lengths, **(lengths or {})})

    def without(self, *names: str) -> Self:
        return replace(self, tensors={name: value for name, value in self.tensors.items() if name not in names})

    def timed(self, counts: Sequence[Sequence[int]]) -> Self:
        """Return a state with a host copy of `counts`, whose rows may be padded."""
        pairs = zip(self.utterances, counts, strict=True)
        return replace(self, id_frames=tuple(list(row[: len(utterance.ids)]) for utterance, row in pairs))

    def frames_of_ids(self) -> tuple[Sequence[int], ...]:
        """Return the frames per id and row. Without a host copy, this waits for the device of `counts`."""
        if self.id_frames is not None:
            return self.id_frames
        return self.timed(self.tensors["counts"].tolist()).frames_of_ids()

    def num_frames(self) -> list[int]:
        """Return the frames of every row, from `frames_of_ids`."""
        return [sum(frames) for frames in self.frames_of_ids()]

    def take(self, rows: Sequence[int]) -> Self:
        """Return the state of the given rows."""
        if list(rows) == list(range(len(self.utterances))):
            return self
        kept = [*self.tensors.values(), *self.lengths.values()]
        index = upload(torch.tensor(rows), kept[0].device) if kept else torch.tensor(rows)
        return replace(
            self,
            utterances=tuple(self.utterances[row] for row in rows),
            tensors={name: value[index] for name, value in self.tensors.items()},
            lengths={name: value[index] for name, value in self.lengths.items()},
            id_frames=None if self.id_frames is None else tuple(self.id_frames[row] for row in rows),
        )


def join(states: Sequence[SpeechState]) -> SpeechState:
    """Return a state with the rows of all states, padded with zeros to the longest."""
    first = states[0]
    if len(states) == 1:
        return first
    known = [state.id_frames for state in states if state.id_frames is not None]
    return SpeechState(
        tuple(utterance for state in states for utterance in state.utterances),
        {name: _stacked([state.tensors[name] for state in states]) for name in first.tensors},
        {name: torch.cat([state.lengths[name] for state in states]) for name in first.lengths},
        tuple(row for rows in known for row in rows) if len(known) == len(states) else None,
    )


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors [B, …] or [B, T, …] along the first dimension, padded to the longest T."""
    if parts[0].dim() < 2 or len({part.shape[1] for part in parts}) == 1:
        return torch.cat(list(parts))
    return pad_sequence([row for part in parts for row in part], batch_first=True)


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to a device without waiting for the copy."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class FlatRows(NamedTuple):
    """Concatenated ids, their positions, the start of each row, the rows' lengths, and the maximum length."""

    ids: Tensor
    positions: Tensor
    seq_start: Tensor
    lengths: Tensor
    longest: int


def flatten(rows: Sequence[Sequence[int]], device: torch.device) -> FlatRows:
    """Return the rows' ids, concatenated, on a device."""
    sizes = [len(row) for row in rows]
    lengths = torch.tensor(sizes)
    ids = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
    positions = torch.cat([torch.arange(size, dtype=torch.int32) for size in sizes])
    starts = torch.zeros(len(rows) + 1, dtype=torch.int32)
    starts[1:] = lengths.cumsum(0)
    parts = [upload(tensor, device) for tensor in (ids, positions, starts, lengths)]
    return FlatRows(parts[0], parts[1], parts[2], parts[3], max(sizes))


#: A strategy to apply a function of one state to several states: separately, or to all of them joined.
ForEach = Callable[[Callable[[SpeechState], SpeechState], Sequence[SpeechState]], list[SpeechState]]
