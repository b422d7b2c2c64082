"""Tables as text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> Iterator[str]:
    """Yield each row as a line, with cells padded to their column. Columns are flush right, except those in `left`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        columns = enumerate(zip(row, widths, strict=True))
        cells = (cell.ljust(width) if index in left else cell.rjust(width) for index, (cell, width) in columns)
        yield "  ".join(cells).rstrip()
