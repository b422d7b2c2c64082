"""Sizes of a row of activations packed for the products of one row (`kernels/quantised/activations`)."""

from __future__ import annotations

from antiphon.ops.triton.quantised.forms import BLOCK, GROUP

#: Words of a packed block: high bytes, low bytes, scale, two sums of codes, sum of squares.
_BLOCK_WORDS = 8 + 8 + 1 + 2 + 1
WARPS = 2


def packed_words(columns: int) -> int:
    """Return the number of 32-bit words of a packed row."""
    return num_groups(columns) * GROUP * _BLOCK_WORDS


def num_groups(columns: int) -> int:
    """Return the number of programs that pack a row."""
    return -(-columns // (BLOCK * GROUP))
