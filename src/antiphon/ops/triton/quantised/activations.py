"""A row of activations, packed for the products of one row (`kernels/quantised/activations`)."""

from __future__ import annotations

from antiphon.ops.triton.quantised.forms import BLOCK, GROUP

#: Words of a packed block: its bytes, its scale and its sums.
_BLOCK_WORDS = 8 + 8 + 1 + 2 + 1
WARPS = 2


def packed_words(columns: int) -> int:
    """The 32-bit words of a packed row."""
    return num_groups(columns) * GROUP * _BLOCK_WORDS


def num_groups(columns: int) -> int:
    """Programs that pack a row."""
    return -(-columns // (BLOCK * GROUP))
