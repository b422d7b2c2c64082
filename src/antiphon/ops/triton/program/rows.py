"""State of a step's requests: one array of 32-bit words, with a row for each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StepRows:
    """Rows of requests in `words`, int32 [rows, width].

    `offsets` are the words of a row at which its columns begin; `tables` those at which each cache group's block table
    begins. Seeds and output indices take two words, of which the first has an even offset.
    """

    words: Tensor
    offsets: Mapping[str, int]
    tables: Mapping[str, int]
    #: Cache groups that hold the states of an encoder.
    cross: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.words.shape[1] % 2 or any(self.offsets[name] % 2 for name in ("seed", "output_index")):
            raise ValueError("64-bit columns of rows begin at even words, and a row has an even number of them")

    @property
    def width(self) -> int:
        return self.words.shape[1]

    def column(self, name: str, dtype: torch.dtype = torch.int32) -> Tensor:
        """Return a flat view that starts at the first row's value of a column; rows follow every `width` words."""
        return self.words.view(-1)[self.offsets[name] :].view(dtype)

    def table(self, group: str) -> Tensor:
        return self.words.view(-1)[self.tables[group] :]
