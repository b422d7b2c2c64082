"""`Batch`: the tokens of all scheduled requests of a step, laid end to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class GroupBatch:
    """Where the tokens of a step live in one cache group.

    A slot is `entry * block_tokens + token_in_block`, where `entry` is the block's table entry (its offset
    in 256-byte units); a negative slot is not stored. Entries of blocks that no query can see may be anything.
    With `rows`, request r has row rows[r] of `block_tables`, else row r. A request whose length is 0 is padding: its
    slots are negative, attention gives it zeros, and its row may be any of the table.
    `packed` holds what backends derived from the tensors, keyed by backend name. Their contents may change, except with
    `rows` or padding, where a backend may have gathered them; the tensors may not be replaced.
    """

    slot_mapping: Tensor  # int64 [T]
    block_tables: Tensor  # int32 [R, max_blocks], or with `rows` any number of rows
    seq_lens: Tensor  # int32 [R], tokens in the cache once this step's are stored
    query_start: Tensor  # int32 [R + 1], the batch's own
    rows: Tensor | None = None  # int32 [R], each request's row of block_tables; None: its own number
    num_decodes: int = 0  # at least so many requests at the front have one query each
    packed: dict[str, Any] = field(init=False, default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Batch:
    """One step's input. `token_ids` or `embeds` is given; request r owns tokens query_start[r]:query_start[r + 1]."""

    positions: Tensor  # int32 [T], or [A, T] for multi-axis rotary embedding
    query_start: Tensor  # int32 [R + 1]
    logit_rows: Tensor  # int64 [L], tokens whose logits are wanted
    token_ids: Tensor | None = None  # int32 [T]
    embeds: Tensor | None = None  # [T, hidden]
    state_rows: Tensor | None = None  # int32 [R]
    adapters: Tensor | None = None  # int32 [T], the slot of each token's adapter, -1 for none; None: no token has one
    groups: dict[str, GroupBatch] = field(default_factory=dict)
