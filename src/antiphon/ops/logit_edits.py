"""Arguments of `edit_logits` and `count_tokens`: the edits of all rows of a step, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class TokenLists:
    """Lists of distinct tokens by row: row r has ids[row_start[r] : row_start[r + 1]]."""

    row_start: Tensor  # int32 [R + 1]
    ids: Tensor  # int32 [N]
    values: Tensor | None = None  # float32 [N]


@dataclass(frozen=True)
class TokenMasks:
    """Packed masks of allowed tokens; token t is bit t % 8, from the lowest, of byte t // 8."""

    bits: Tensor  # uint8 [M, bytes for V bits]
    index: Tensor  # int32 [R], index of each row's mask; -1 for rows without a mask


@dataclass(frozen=True)
class TokenCounts:
    """Distinct tokens of sequences and how often each was sampled, by slot. The tensors are changed in place.

    Prompt tokens that were never sampled have a count of 0. Values beyond `num_ids` of a slot are arbitrary.
    """

    ids: Tensor  # int32 [slots, capacity]
    counts: Tensor  # int32 [slots, capacity]
    num_ids: Tensor  # int32 [slots]


@dataclass(frozen=True)
class Penalties:
    """Penalties for the tokens in each row's slot of `counts`: repetition first, then presence and frequency."""

    values: Tensor  # float32 [R, 3]: repetition (divides, 1 is off), presence, frequency (both subtracted)
    slots: Tensor  # int32 [R]; -1 for rows without penalties
    counts: TokenCounts


@dataclass(frozen=True)
class LogitEditRows:
    """Edits of R rows of logits, in the order in which they apply. A field holds None if no row has that edit.

    `spans` int32 [R, 5] are (keep_from, keep_until, gap_from, gap_until, timestamps): a row keeps the tokens from
    keep_from to keep_until except those from gap_from to gap_until. If `timestamps` is not negative, it is the first
    timestamp token: where all timestamps together are likelier than the likeliest text token, text is removed as well.
    `typical` float32 [R, 2] is (typical_p, temperature): a row keeps the tokens whose surprise is nearest to the
    entropy, up to the total probability typical_p. With typical_p 1 or temperature 0 it keeps all tokens.
    """

    masks: TokenMasks | None = None
    allowed: TokenLists | None = None  # a row with an empty list allows all tokens
    banned: TokenLists | None = None
    spans: Tensor | None = None
    bias: TokenLists | None = None  # added; minus infinity bans
    penalties: Penalties | None = None
    typical: Tensor | None = None

    def __bool__(self) -> bool:
        parts = (self.masks, self.allowed, self.banned, self.spans, self.bias, self.penalties, self.typical)
        return any(part is not None for part in parts)
