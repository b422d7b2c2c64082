"""Sizes of decode steps that graphs exist for: the number of rows, and of parts in which the context is read."""

from __future__ import annotations

#: Maximum number of rows that has a graph of its own; larger numbers are rounded up.
DENSE_ROWS = 16
#: (Maximum number of rows, multiple that it is rounded up to.)
COARSER = ((64, 8), (256, 16), (1 << 30, 64))

#: Number of programs of an attention kernel that keep a large card's memory busy. Beyond HALVED_ROWS rows, half as many
#: programs suffice, with tiles twice as large.
PROGRAMS, HALVED_ROWS = 1024, 24
#: Minimum tokens in a part of the context.
PART_TOKENS = 64
MAX_SPLITS = 32
#: Maximum number of rows whose context is split; beyond, one program computes each head of a row.
SPLIT_ROWS = 40


def row_bucket(rows: int, max_rows: int) -> int:
    """Return the number of rows of the graph for a step with `rows` requests."""
    if rows <= DENSE_ROWS:
        return rows
    step = next(step for most, step in COARSER if rows <= most)
    return min(-(-rows // step) * step, max(max_rows, rows))


def split_count(rows: int, kv_heads: int, longest: int) -> int:
    """Return the number of parts of the context, a power of two, if the longest row has `longest` tokens."""
    parts = -(-longest // PART_TOKENS)
    if rows == 1:  # a single row gains from one program for every tile
        return min(1 << (parts - 1).bit_length(), MAX_SPLITS)
    programs = PROGRAMS // 2 if rows > HALVED_ROWS else PROGRAMS
    wanted = 1 if rows > SPLIT_ROWS else min(programs // max(rows * kv_heads, 1), parts, MAX_SPLITS)
    return 1 << max(wanted, 1).bit_length() - 1


def chained_size(rows: int, max_rows: int, kv_heads: int, longest: int) -> tuple[int, int]:
    """Return the rows and splits of the graph for a step with drafts.

    There are few sizes: drafts have any length, and a request waits while a graph is captured.
    """
    count = min(1 << max(rows - 1, 1).bit_length(), row_bucket(max_rows, max_rows))
    parts = -(-longest // PART_TOKENS)
    spread = 1 << 2 * (-(-(parts - 1).bit_length() // 2))  # a power of four
    return count, split_count(count, kv_heads, spread * PART_TOKENS)


def chained_sizes(max_rows: int, kv_heads: int, max_tokens: int) -> list[tuple[int, int]]:
    """Return all sizes of `chained_size` for up to `max_rows` rows and `max_tokens` tokens."""
    counts = [*(1 << power for power in range(1, max_rows.bit_length())), max_rows]
    lengths = [1 << power for power in range(max_tokens.bit_length() + 1)]
    return sorted({chained_size(rows, max_rows, kv_heads, longest) for rows in counts for longest in lengths})
