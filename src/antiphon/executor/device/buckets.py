"""Sizes of decode steps that graphs exist for: how many rows, and in how many parts the context is read."""

from __future__ import annotations

#: Every number of rows up to this has a graph of its own; beyond, numbers are rounded up.
DENSE_ROWS = 16
#: (rows up to, step)
COARSER = ((64, 8), (256, 16), (1 << 30, 64))

#: Programs of an attention kernel that keep the memory of a large card busy; of more rows than the second number, half
#: as many with tiles twice as large.
PROGRAMS, HALVED_ROWS = 1024, 24
#: A part of the context has at least so many tokens.
PART_TOKENS = 64
MAX_SPLITS = 32
#: Beyond, every head of a row is one program's.
SPLIT_ROWS = 40


def row_bucket(rows: int, max_rows: int) -> int:
    """How many rows the graph for a step of so many requests has."""
    if rows <= DENSE_ROWS:
        return rows
    step = next(step for most, step in COARSER if rows <= most)
    return min(-(-rows // step) * step, max(max_rows, rows))


def split_count(rows: int, kv_heads: int, longest: int) -> int:
    """Parts of the context, a power of two, for rows of which the longest has so many tokens."""
    parts = -(-longest // PART_TOKENS)
    if rows == 1:  # alone, it gains from a program for every tile
        return min(1 << (parts - 1).bit_length(), MAX_SPLITS)
    programs = PROGRAMS // 2 if rows > HALVED_ROWS else PROGRAMS
    wanted = 1 if rows > SPLIT_ROWS else min(programs // max(rows * kv_heads, 1), parts, MAX_SPLITS)
    return 1 << max(wanted, 1).bit_length() - 1


def chained_size(rows: int, max_rows: int, kv_heads: int, longest: int) -> tuple[int, int]:
    """Rows and splits of the graph for a step with drafts.

    There are few sizes, since drafts have any length, and a request waits while a graph is captured.
    """
    count = min(1 << max(rows - 1, 1).bit_length(), row_bucket(max_rows, max_rows))
    parts = -(-longest // PART_TOKENS)
    spread = 1 << 2 * (-(-(parts - 1).bit_length() // 2))  # a power of four
    return count, split_count(count, kv_heads, spread * PART_TOKENS)


def chained_sizes(max_rows: int, kv_heads: int, max_tokens: int) -> list[tuple[int, int]]:
    """Every size of such steps of up to so many rows."""
    counts = [*(1 << power for power in range(1, max_rows.bit_length())), max_rows]
    lengths = [1 << power for power in range(max_tokens.bit_length() + 1)]
    return sorted({chained_size(rows, max_rows, kv_heads, longest) for rows in counts for longest in lengths})
