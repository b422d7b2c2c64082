"""`RowLayout`: the layout of running requests' states in the store of rows, and a plan's changes of these."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.plan import RowSetup, StepPlan
from antiphon.engine.request import Request

#: Number of 32-bit words of each column. Floats are stored by their bits, 64-bit values with the low word first.
COLUMNS = {
    "seed": 2, "output_index": 2, "last_token": 1, "length": 1, "temperature": 1, "top_k": 1, "top_p": 1, "min_p": 1,
    "cross_tokens": 1, "adapter": 1,
}  # fmt: skip

#: Formats of a row's columns, in their order, and of the same bytes as words.
_VALUES, _WORDS = struct.Struct("<qqiififfii"), struct.Struct("<12i")

#: Largest value of a word.
MOST = (1 << 31) - 1

#: Alignment in words of tables, and of rows where these are contiguous.
ALIGNMENT = 16

NO_CHANGES: NDArray[np.int32] = np.empty((0, 2), dtype=np.int32)


@dataclass(frozen=True)
class Column:
    """Column or table of the store, in words: row r's words begin at `offset + r * stride`."""

    offset: int
    stride: int
    words: int


class RowLayout:
    """Layout of requests' columns and block tables as words of one int32 array.

    `by_row` keeps the `width` words of a row together, for devices that read rows; otherwise each column is contiguous.
    The column `length` is the number of a request's cached tokens, which is the position of its next token. A GPU
    computes positions and advances it; the CPU takes positions from the plan and does not.
    """

    def __init__(self, max_rows: int, table_widths: Sequence[int], by_row: bool) -> None:
        sizes = [*COLUMNS.values(), *table_widths]
        offsets, end = [], 0
        for index, size in enumerate(sizes):
            if index >= len(COLUMNS) or not by_row:
                end = _aligned(end)
            offsets.append(end)
            end += size if by_row else size * max_rows
        self.width = _aligned(end) if by_row else 0
        self.num_words = self.width * max_rows if by_row else _aligned(end)
        columns = [Column(at, self.width or size, size) for at, size in zip(offsets, sizes, strict=True)]
        self.columns = dict(zip(COLUMNS, columns, strict=False))
        self.tables = columns[len(COLUMNS) :]
        self._tables = [(table.offset, table.stride, table.words) for table in self.tables]
        #: Offset in row 0, and stride, of every word of the columns in their order.
        self._words = [(c.offset + word, c.stride) for c in self.columns.values() for word in range(c.words)]

    def changes(self, plan: StepPlan, stale: Iterable[Request] = ()) -> NDArray[np.int32]:
        """Return the plan's changes as pairs [N, 2] of a word's index in the store and its value; indices are distinct.

        A plan without new rows and blocks changes only the rows of `stale` requests.
        """
        words = self.words(plan, stale)
        if not words:
            return NO_CHANGES
        pairs = chain.from_iterable(words.items())
        return np.fromiter(pairs, dtype=np.int32, count=2 * len(words)).reshape(-1, 2)

    def words(self, plan: StepPlan, stale: Iterable[Request] = ()) -> dict[int, int]:
        """Return the values of the words that the plan changes, by index in the store.

        The columns of `stale` requests are set to the host's values.
        """
        words: dict[int, int] = {}
        for request in stale:
            self._set_columns(request, words)
        tables = self._tables
        for row, group, index, entry in plan.table_updates:
            first, stride, width = tables[group]
            assert index < width, f"block {index} in a table of {width}"
            words[first + row * stride + index] = entry
        for setup in plan.row_setups:
            if setup.request.row >= 0:  # a request preempted within the same plan has no row
                self._set_up(setup, words)
        return words

    def _set_up(self, setup: RowSetup, words: dict[int, int]) -> None:
        request = setup.request
        row = request.row
        for table, entries in zip(self.tables, setup.tables, strict=True):
            assert len(entries) <= table.words, f"{len(entries)} blocks in a table of {table.words}"
            first = table.offset + row * table.stride
            words.update(zip(range(first, first + len(entries)), entries, strict=True))
        self._set_columns(request, words)

    def _set_columns(self, request: Request, words: dict[int, int]) -> None:
        row, params = request.row, request.params
        values = _WORDS.unpack(
            _VALUES.pack(
                params.seed, request.num_output_tokens, request.tokens[-1], request.num_computed_tokens,
                params.temperature, min(params.top_k, MOST), params.top_p, params.min_p, request.cross_tokens,
                request.adapter,
            )
        )  # fmt: skip
        for (first, stride), value in zip(self._words, values, strict=True):
            words[first + row * stride] = value


def _aligned(words: int) -> int:
    return -(-words // ALIGNMENT) * ALIGNMENT
