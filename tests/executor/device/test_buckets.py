"""Sizes of decode steps: few enough to be captured, and close to what is asked for."""

from __future__ import annotations

import pytest

from antiphon.executor.device.buckets import (
    DENSE_ROWS,
    MAX_SPLITS,
    PROGRAMS,
    chained_size,
    chained_sizes,
    row_bucket,
    split_count,
)

MOST = 1024


def test_buckets_hold_their_rows_and_grow_with_them() -> None:
    buckets = [row_bucket(rows, MOST) for rows in range(1, MOST + 1)]
    assert buckets == sorted(buckets)
    assert all(rows <= bucket <= MOST for rows, bucket in enumerate(buckets, 1))
    assert buckets[:DENSE_ROWS] == list(range(1, DENSE_ROWS + 1))
    assert all(row_bucket(bucket, MOST) == bucket for bucket in buckets), "a bucket is its own bucket"
    assert len(set(buckets)) < 64


def test_padding_is_at_most_a_third_and_a_fifth_from_32_rows_on() -> None:
    for rows in range(DENSE_ROWS + 1, MOST + 1):
        padding = row_bucket(rows, MOST) - rows
        assert padding / row_bucket(rows, MOST) < (0.3 if rows < 32 else 0.2), rows


@pytest.mark.parametrize("most", [1, 3, 16, 20, 37, 100])
def test_a_bucket_is_at_most_what_can_run(most: int) -> None:
    assert [row_bucket(rows, most) <= most for rows in range(1, most + 1)] == [True] * most
    assert row_bucket(most, most) == most


@pytest.mark.parametrize("heads", [1, 2, 8, 32])
def test_splits(heads: int) -> None:
    """A power of two, fewer with more rows, more with a longer context."""
    for rows in (1, 2, 7, 16, 64, 256, 1024):
        splits = [split_count(rows, heads, longest) for longest in range(1, 5000, 37)]
        assert splits == sorted(splits) and splits[0] == 1
        assert all(count & (count - 1) == 0 and 1 <= count <= MAX_SPLITS for count in splits)
        assert splits[-1] == 1 or splits[-1] * rows * heads <= PROGRAMS
    for longest in (1, 100, 4096):
        counts = [split_count(rows, heads, longest) for rows in range(2, 300)]
        assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(("heads", "most"), [(2, 256), (8, 20), (32, 3), (1, 2)])
def test_steps_with_drafts_have_few_sizes(heads: int, most: int) -> None:
    """Each holds its rows, in no more splits than memory is reserved for."""
    found = set()
    for rows in range(2, min(most, 64) + 1):
        for longest in range(1, 9000, 61):
            count, splits = chained_size(rows, most, heads, longest)
            assert rows <= count <= most and count < 2 * rows
            assert split_count(count, heads, longest) <= splits <= split_count(count, heads, 1 << 20)
            found.add((count, splits))
    assert len(found) <= 24
    assert {size for size in found if size[0] <= 32 and size[0] & (size[0] - 1) == 0} <= {
        *chained_sizes(min(most, 32), heads, 9000)
    }
