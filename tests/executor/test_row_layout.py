"""Changes of rows as packed words: applied, they give each row what its request has, in either layout."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from antiphon import ops
from antiphon.engine.plan import RowSetup, StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.row_layout import COLUMNS, RowLayout
from antiphon.executor.rows import RowStore
from antiphon.ops import CacheGroup, CacheKind, CacheLayout

ROWS = 6
WIDTHS = [9, 4]
TYPES = {"seed": torch.int64, "output_index": torch.int64, "temperature": torch.float32, "top_p": torch.float32,
         "min_p": torch.float32}  # fmt: skip


def random_plan(source: random.Random) -> StepPlan:
    """Updates of tables, some of the same entry, and rows that are set up after them."""
    plan = StepPlan("m")
    for _ in range(source.randrange(6)):
        group = source.randrange(2)
        entry = (source.randrange(ROWS), group, source.randrange(WIDTHS[group]))
        plan.table_updates += [(*entry, source.randrange(1 << 20)) for _ in range(source.choice((1, 1, 2)))]
    for row in source.sample(range(-1, ROWS), source.randrange(3)):
        params = SamplingParams(
            temperature=source.random(), top_k=source.randrange(100), top_p=1 - source.random(), min_p=source.random(),
            seed=source.randrange(-(1 << 63), 1 << 63),
        )  # fmt: skip
        request = Request("r", "m", [1, 2, 3], params)
        request.cross_tokens, request.adapter = source.randrange(9), source.randrange(-1, 3)
        request.tokens += [source.randrange(1000) for _ in range(source.randrange(4))]
        request.num_computed_tokens = source.randrange(len(request.tokens))
        request.row = row
        tables = [[source.randrange(1 << 20) for _ in range(source.randrange(width + 1))] for width in WIDTHS]
        plan.row_setups.append(RowSetup(request, tables))
    return plan


class PlainRows:
    """What the rows must hold, value by value."""

    def __init__(self) -> None:
        self.tables = [[[0] * width for _ in range(ROWS)] for width in WIDTHS]
        self.columns: dict[str, list[Any]] = {name: [0] * ROWS for name in COLUMNS}

    def apply(self, plan: StepPlan) -> None:
        for row, group, index, entry in plan.table_updates:
            self.tables[group][row][index] = entry
        for setup in plan.row_setups:
            request = setup.request
            if request.row < 0:
                continue
            for table, entries in zip(self.tables, setup.tables, strict=True):
                table[request.row][: len(entries)] = entries
            values = {name: getattr(request.params, name, None) for name in COLUMNS} | {
                "output_index": request.num_output_tokens,
                "last_token": request.tokens[-1],
                "length": request.num_computed_tokens,
                "cross_tokens": request.cross_tokens,
                "adapter": request.adapter,
            }
            for name, column in self.columns.items():
                value = values[name]
                column[request.row] = float(np.float32(value)) if TYPES.get(name) is torch.float32 else value


def read(layout: RowLayout, words: torch.Tensor, name: str) -> list[Any]:
    column = layout.columns[name]
    found = []
    for row in range(ROWS):
        first = column.offset + row * column.stride
        found += words[first : first + column.words].clone().view(TYPES.get(name, torch.int32)).tolist()
    return found


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_changes_give_rows_what_their_requests_have(by_row: bool, backend: str) -> None:
    if backend not in ops.available_backends():
        pytest.skip(f"{backend} is not available")
    source = random.Random(7)
    layout, plain = RowLayout(ROWS, WIDTHS, by_row), PlainRows()
    words = torch.zeros(layout.num_words, dtype=torch.int32)
    for _ in range(60):
        plan = random_plan(source)
        plain.apply(plan)
        changes = layout.changes(plan)
        assert changes.dtype == np.int32 and len(set(changes[:, 0].tolist())) == len(changes)
        with ops.use_backend(backend):
            ops.scatter_words(words, torch.from_numpy(changes))
        for name in COLUMNS:
            assert read(layout, words, name) == plain.columns[name], name
        for table, expected in zip(layout.tables, plain.tables, strict=True):
            assert [words[table.offset + r * table.stride :][: table.words].tolist() for r in range(ROWS)] == expected


def test_a_step_without_new_rows_and_blocks_changes_nothing() -> None:
    plan = StepPlan("m")
    request = Request("r", "m", [1], SamplingParams())
    request.row = 0
    plan.add(request, 1, samples=True)
    changes = RowLayout(ROWS, WIDTHS, by_row=True).changes(plan)
    assert changes.shape == (0, 2) and changes.dtype == np.int32


def test_rows_of_a_device_are_contiguous_and_their_words_aligned() -> None:
    layout = RowLayout(ROWS, WIDTHS, by_row=True)
    assert layout.num_words == ROWS * layout.width and layout.width % 16 == 0
    assert all(column.stride == layout.width for column in (*layout.columns.values(), *layout.tables))
    assert all(table.offset % 16 == 0 for table in layout.tables)
    assert layout.columns["seed"].offset % 2 == layout.columns["output_index"].offset % 2 == 0
    spans = [range(c.offset, c.offset + c.words) for c in (*layout.columns.values(), *layout.tables)]
    assert len({word for span in spans for word in span}) == sum(map(len, spans)), "columns overlap"


def test_a_block_beyond_a_table_is_rejected() -> None:
    plan = StepPlan("m")
    plan.table_updates = [(0, 1, WIDTHS[1], 5)]
    with pytest.raises(AssertionError, match="block 4 in a table of 4"):
        RowLayout(ROWS, WIDTHS, by_row=False).changes(plan)


def test_the_store_of_the_cpu_has_its_columns_as_arrays() -> None:
    groups = [CacheLayout(CacheGroup(name, CacheKind.FULL, 1, 1, 16), 4) for name in ("a", "b")]
    store, plain = RowStore(ROWS, groups, [4 * (width - 1) for width in WIDTHS]), PlainRows()
    source = random.Random(3)
    for _ in range(40):
        plan = random_plan(source)
        plain.apply(plan)
        store.apply(plan)
        for name in COLUMNS:
            if name != "length":
                column = getattr(store, name)
                assert column.flags.c_contiguous and column.tolist() == plain.columns[name], name
        assert [table.tolist() for table in store.tables] == plain.tables


def test_a_top_k_beyond_a_word_is_the_largest() -> None:
    plan = StepPlan("m")
    request = Request("r", "m", [1], SamplingParams(top_k=1 << 40))
    request.row = 2
    plan.row_setups = [RowSetup(request, [[], []])]
    layout = RowLayout(ROWS, WIDTHS, by_row=True)
    words = torch.zeros(layout.num_words, dtype=torch.int32)
    ops.scatter_words(words, torch.from_numpy(layout.changes(plan)))
    assert read(layout, words, "top_k")[2] == (1 << 31) - 1
