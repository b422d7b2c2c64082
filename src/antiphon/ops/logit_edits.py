"""What `edit_logits` and `count_tokens` take: the edits of all rows of a step, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class TokenLists:
    """A list of distinct tokens for each row: those of row r are ids[row_start[r] : row_start[r + 1]]."""

    row_start: Tensor  # int32 [R + 1]
    ids: Tensor  # int32 [N]
    values: Tensor | None = None  # float32 [N]


@dataclass(frozen=True)
class TokenMasks:
    """Packed masks of allowed tokens: the lowest bit of the first byte is token 0's."""

    bits: Tensor  # uint8 [M, bytes for V bits]
    index: Tensor  # int32 [R], the mask of each row; -1 for none


@dataclass(frozen=True)
class TokenCounts:
    """The distinct tokens of sequences and how often each was drawn, by slot. The tensors are changed in place.

    A token of a prompt that was never drawn has a count of 0. What lies beyond `num_ids` of a slot may be anything.
    """

    ids: Tensor  # int32 [slots, capacity]
    counts: Tensor  # int32 [slots, capacity]
    num_ids: Tensor  # int32 [slots]


@dataclass(frozen=True)
class Penalties:
    """A row's logits of the tokens in its slot are penalised: repetition first, then presence and frequency."""

    values: Tensor  # float32 [R, 3]: repetition (divides, 1 is off), presence, frequency (both subtracted)
    slots: Tensor  # int32 [R]; -1 for none
    counts: TokenCounts


@dataclass(frozen=True)
class LogitEditRows:
    """The edits of R rows of logits, in the order in which they apply. None where no row has an edit of that kind.

    `spans` int32 [R, 5] are (keep_from, keep_until, gap_from, gap_until, timestamps): only tokens of the first range
    that are not in the second are kept. If `timestamps` is not negative, then wherever the tokens from there on are
    together likelier than the likeliest token before them, those before are removed as well.
    `typical` float32 [R, 2] is (typical_p, temperature): the tokens whose surprise is nearest to the entropy are kept,
    up to this total probability. A row with either typical_p 1 or temperature 0 keeps all.
    """

    masks: TokenMasks | None = None
    allowed: TokenLists | None = None  # a row without any allows all
    banned: TokenLists | None = None
    spans: Tensor | None = None
    bias: TokenLists | None = None  # added; minus infinity bans
    penalties: Penalties | None = None
    typical: Tensor | None = None

    def __bool__(self) -> bool:
        parts = (self.masks, self.allowed, self.banned, self.spans, self.bias, self.penalties, self.typical)
        return any(part is not None for part in parts)
