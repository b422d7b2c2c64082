"""Buffers that are needed at the same time never overlap, and little more memory is taken than must be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.ops.program.plan import ALIGNMENT, Interval, assign

INTERVALS = st.lists(
    st.builds(
        lambda blocks, first, length: Interval(blocks * ALIGNMENT, first, first + length),
        st.integers(1, 40),
        st.integers(0, 60),
        st.integers(0, 12),
    ),
    max_size=60,
)


def most_at_once(intervals: list[Interval]) -> int:
    """Bytes that must be there at the busiest instruction."""
    moments = {interval.first for interval in intervals}
    return max((sum(i.size for i in intervals if i.first <= m <= i.last) for m in moments), default=0)


@given(INTERVALS)
def test_what_meets_does_not_overlap(intervals: list[Interval]) -> None:
    offsets, total = assign(intervals)
    for index, (own, start) in enumerate(zip(intervals, offsets, strict=True)):
        assert 0 <= start <= start + own.size <= total
        assert start % ALIGNMENT == 0
        for other, offset in list(zip(intervals, offsets, strict=True))[index + 1 :]:
            if own.first <= other.last and other.first <= own.last:
                assert start + own.size <= offset or offset + other.size <= start
    assert most_at_once(intervals) <= total <= sum(interval.size for interval in intervals)


def test_a_chain_of_layers_needs_no_more_than_its_busiest_moment() -> None:
    """The pattern of a decoder: a residual that stays, a wide value between two narrow ones."""
    intervals = []
    for layer in range(20):
        start = 6 * layer
        intervals += [
            Interval(576 * 4, start - 1, start + 3),  # the residual
            Interval(576 * 4, start, start + 1),  # normed
            Interval(960 * 4, start + 1, start + 2),  # queries, keys and values
            Interval(576 * 4, start + 3, start + 5),  # the new residual
            Interval(1536 * 4, start + 4, start + 5),  # gated
        ]
    _, total = assign(intervals)
    assert total <= 1.05 * most_at_once(intervals)
