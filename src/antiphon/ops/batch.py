"""`Batch`: the tokens of all scheduled requests of a step, end to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class GroupBatch:
    """Cache slots and block tables of a step's tokens in one cache group.

    A slot is `entry * block_tokens + token_in_block`, where `entry` is the block's table entry (its offset
    in 256-byte units); tokens with a negative slot are not stored. Entries of blocks that no query sees are arbitrary.
    With `rows`, request r has row rows[r] of `block_tables`, else row r. A request of length 0 is padding: its slots
    are negative, attention returns zeros for its queries, and its row may be any row of the table.
    `packed` holds forms that backends derived from the tensors, by backend name. The tensors may not be replaced; their
    contents may change, except with `rows` or padding, where a backend may have gathered them.
    """

    slot_mapping: Tensor  # int64 [T]
    block_tables: Tensor  # int32 [R, max_blocks], or with `rows` any number of rows
    seq_lens: Tensor  # int32 [R], cached tokens of each request, this step's included
    query_start: Tensor  # int32 [R + 1], the batch's `query_start`
    rows: Tensor | None = None  # int32 [R], each request's row of block_tables; None: request r has row r
    num_decodes: int = 0  # number of leading requests known to have one query each; there may be more
    packed: dict[str, Any] = field(init=False, default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Batch:
    """Input of one step: `token_ids` or `embeds`. Request r owns tokens query_start[r]:query_start[r + 1]."""

    positions: Tensor  # int32 [T], or [A, T] for multi-axis rotary embedding
    query_start: Tensor  # int32 [R + 1]
    logit_rows: Tensor  # int64 [L], indices of tokens whose logits are computed
    token_ids: Tensor | None = None  # int32 [T]
    embeds: Tensor | None = None  # [T, hidden]
    state_rows: Tensor | None = None  # int32 [R]
    adapters: Tensor | None = None  # int32 [T], adapter slot of each token, -1 without; None: no token has an adapter
    groups: dict[str, GroupBatch] = field(default_factory=dict)
