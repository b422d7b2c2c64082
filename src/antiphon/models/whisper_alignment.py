"""Cross-attention heads of OpenAI's Whisper models that follow the sound from left to right: (layer, head) pairs.

The heads are properties of the published weights, listed by OpenAI; files of other formats state the same lists.
"""

from __future__ import annotations

Heads = tuple[tuple[int, int], ...]

_TINY_EN: Heads = ((1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4))
_TINY: Heads = ((2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5))
_BASE_EN: Heads = ((3, 3), (4, 7), (5, 1), (5, 5), (5, 7))
_BASE: Heads = ((3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6))
_SMALL_EN: Heads = (
    (6, 6), (7, 0), (7, 3), (7, 8), (8, 2), (8, 5), (8, 7), (9, 0), (9, 4), (9, 8), (9, 10), (10, 0), (10, 1), (10, 2),
    (10, 3), (10, 6), (10, 11), (11, 2), (11, 4),
)  # fmt: skip
_SMALL: Heads = ((5, 3), (5, 9), (8, 0), (8, 4), (8, 7), (8, 8), (9, 0), (9, 7), (9, 9), (10, 5))
_MEDIUM_EN: Heads = (
    (11, 4), (14, 1), (14, 12), (14, 14), (15, 4), (16, 0), (16, 4), (16, 9), (17, 12), (17, 14), (18, 7), (18, 10),
    (18, 15), (20, 0), (20, 3), (20, 9), (20, 14), (21, 12),
)  # fmt: skip
_MEDIUM: Heads = ((13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4))
_LARGE_V2: Heads = (
    (10, 12), (13, 17), (16, 11), (16, 12), (16, 13), (17, 15), (17, 16), (18, 4), (18, 11), (18, 19), (19, 11),
    (21, 2), (21, 3), (22, 3), (22, 9), (22, 12), (23, 5), (23, 7), (23, 13), (25, 5), (26, 1), (26, 12), (27, 15),
)  # fmt: skip
_LARGE_V3: Heads = (
    (7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6),
)  # fmt: skip
_TURBO: Heads = ((2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14))

#: Heads by (decoder layers, decoder heads, vocabulary). Large v1 has the shape of v2, and gets v2's heads.
KNOWN: dict[tuple[int, int, int], Heads] = {
    (4, 6, 51864): _TINY_EN,
    (4, 6, 51865): _TINY,
    (6, 8, 51864): _BASE_EN,
    (6, 8, 51865): _BASE,
    (12, 12, 51864): _SMALL_EN,
    (12, 12, 51865): _SMALL,
    (24, 16, 51864): _MEDIUM_EN,
    (24, 16, 51865): _MEDIUM,
    (32, 20, 51865): _LARGE_V2,
    (32, 20, 51866): _LARGE_V3,
    (4, 20, 51866): _TURBO,
}


def alignment_heads(layers: int, heads: int, vocab_size: int, stated: object = None) -> Heads:
    """Return the heads that the file states, else the known ones for this shape, else all in the later layers."""
    if isinstance(stated, list) and stated and all(_is_pair(pair, layers, heads) for pair in stated):
        return tuple((pair[0], pair[1]) for pair in stated)
    later = tuple((layer, head) for layer in range(layers // 2, layers) for head in range(heads))
    return KNOWN.get((layers, heads, vocab_size), later)


def _is_pair(pair: object, layers: int, heads: int) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(type(number) is int for number in pair)
        and 0 <= pair[0] < layers
        and 0 <= pair[1] < heads
    )
