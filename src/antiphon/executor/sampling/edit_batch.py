"""`EditBatch`: the logit edits of a step's rows as the tensors of `LogitEditRows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.request import Request
from antiphon.executor.draft_rows import DraftRows
from antiphon.executor.sampling.count_table import CountTable
from antiphon.executor.sampling.row_edits import FixedEdits, RowEdits, row_edits
from antiphon.executor.sampling.transcript_spans import whole
from antiphon.executor.upload import upload_constant
from antiphon.ops import LogitEditRows, Penalties, TokenLists, TokenMasks

NO_EDITS = FixedEdits()

#: Bytes of a grammar's mask, None without a mask, or the exception that the grammar raised.
Mask = NDArray[np.uint8] | Exception | None


class EditBatch:
    """Logit edits of all rows that have edits. Tensors that stay the same between steps are uploaded once."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._device = device
        self._rows: dict[int, RowEdits] = {}
        self._counts = CountTable(vocab_size, device)
        self._last: tuple[tuple[FixedEdits, ...], tuple[int, ...]] = ((), ())
        self._fixed = LogitEditRows()
        self._borrowed: list[int] = []  # slots of the last step's drafts
        self._slots: tuple[tuple[int, ...], Tensor] = ((), torch.zeros(0, dtype=torch.int32))

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    def remove_left(self) -> None:
        """Free the edits of requests that have left their row."""
        for row, edits in list(self._rows.items()):
            if edits.request.row != row:
                self._remove(row)

    def set_up(self, request: Request) -> None:
        """Replace the edits of a row by those of the request that the row was given to."""
        self._remove(request.row)
        edits = row_edits(request, self._vocab_size)
        if edits is not None and request.row >= 0:
            self._rows[request.row] = edits
            if edits.counts_tokens:
                edits.slot = self._counts.take(request)

    def _remove(self, row: int) -> None:
        edits = self._rows.pop(row, None)
        if edits is not None and edits.slot >= 0:
            self._counts.release(edits.slot)

    def _live(self, row: int) -> RowEdits | None:
        """Return the edits of a row; None without edits, or if its request ended while the step was in flight."""
        edits = self._rows.get(row)
        return None if edits is None or edits.request.is_ended else edits

    def masks(self, row: int, num_drafted: int = 0) -> list[Mask]:
        """Return the masks of a row for its next token and for the token after each drafted token.

        If the grammar fails, its exception takes the place of the masks.
        """
        edits = self._live(row)
        if edits is None:
            return [None] * (1 + num_drafted)
        try:
            found: list[Mask] = [_mask_bytes(edits.mask())]
        except Exception as error:
            return [error] * (1 + num_drafted)
        try:
            return found + [_mask_bytes(mask) for mask in edits.draft_masks(num_drafted)] if num_drafted else found
        except Exception as error:
            return found + [error] * num_drafted

    def build(
        self, rows: Sequence[int], masks: Sequence[Mask], ahead: Sequence[Sequence[int]] | None = None
    ) -> tuple[LogitEditRows, dict[int, Exception]]:
        """Return the edits of rows for their next tokens, and by index the errors of failed rows, which get no edits.

        With drafts, `rows` repeats a row for each token that it may keep, and `ahead` has the drafted tokens before it.
        """
        self._return_borrowed()
        fixed, slots = [NO_EDITS] * len(rows), [-1] * len(rows)
        spans = np.full((len(rows), 5), whole(self._vocab_size), dtype=np.int32)
        has_spans = False
        failures: dict[int, Exception] = {}
        for index, row in enumerate(rows):
            edits, mask = self._live(row), masks[index]
            if edits is None:
                continue
            drafted = () if ahead is None else ahead[index]
            try:
                if isinstance(mask, Exception):
                    raise mask
                fixed[index] = edits.fixed(len(drafted))
            except Exception as error:
                failures[index] = error
                continue
            span = edits.span(drafted)
            if span is not None:
                spans[index], has_spans = span, True
            if fixed[index].penalties is not None:
                slots[index] = self._extended(slots[index - 1], drafted[-1]) if drafted else edits.slot
        self._update_fixed(tuple(fixed), tuple(slots))
        found = replace(self._fixed, masks=self._masks(masks), spans=self._put(spans) if has_spans else None)
        if found.penalties is not None:  # the table may have grown
            found = replace(found, penalties=replace(found.penalties, counts=self._counts.counts))
        return found, failures

    def _extended(self, slot: int, token: int) -> int:
        """Borrow a slot with the counts of another slot and one more token, for this step only."""
        self._borrowed.append(self._counts.extended(slot, token))
        return self._borrowed[-1]

    def _return_borrowed(self) -> None:
        for slot in self._borrowed:
            self._counts.release(slot)
        self._borrowed.clear()

    def count(self, rows: Sequence[int], tokens: Tensor, drafts: DraftRows | None = None) -> None:
        """Count the tokens sampled for these rows, on the device; of a draft, only the kept tokens."""
        slots = tuple(self._rows[row].slot if row in self._rows else -1 for row in rows)
        if max(slots, default=-1) < 0:
            return
        if drafts is not None:
            self._count_kept(self._put(np.asarray(slots, dtype=np.int32)), tokens, drafts)
            return
        if slots != self._slots[0]:
            self._slots = slots, self._put(np.asarray(slots, dtype=np.int32))
        self._counts.count(self._slots[1], tokens)

    def _count_kept(self, slots: Tensor, tokens: Tensor, drafts: DraftRows) -> None:
        """Count kept tokens position by position, since a call counts one token per slot."""
        firsts, last = self._put(drafts.firsts), drafts.last_kept(tokens)
        for position in range(int(drafts.offsets.max()) + 1):
            rows = firsts + position
            is_kept = rows <= last
            rows = torch.where(is_kept, rows, firsts)
            self._counts.count(torch.where(is_kept, slots[rows], -1), tokens[rows].to(torch.int32))

    def _update_fixed(self, fixed: tuple[FixedEdits, ...], slots: tuple[int, ...]) -> None:
        if (fixed, slots) == self._last:
            return
        self._last = fixed, slots
        penalties = typical = None
        if max(slots, default=-1) >= 0:
            values = np.asarray([edits.penalties or (1, 0, 0) for edits in fixed], dtype=np.float32)
            indices = self._put(np.asarray(slots, dtype=np.int32))
            penalties = Penalties(self._put(values), indices, self._counts.counts)
        if any(edits.typical for edits in fixed):
            typical = self._put(np.asarray([edits.typical or (1, 0) for edits in fixed], dtype=np.float32))
        self._fixed = LogitEditRows(
            allowed=self._lists([edits.allowed for edits in fixed]),
            banned=self._lists([edits.banned for edits in fixed]),
            bias=self._lists([edits.bias_ids for edits in fixed], [edits.bias for edits in fixed]),
            penalties=penalties,
            typical=typical,
        )

    def _lists(
        self, ids: list[NDArray[np.int32]], values: list[NDArray[np.float32]] | None = None
    ) -> TokenLists | None:
        row_start = np.zeros(len(ids) + 1, dtype=np.int32)
        np.cumsum([len(own) for own in ids], out=row_start[1:])
        if not row_start[-1]:
            return None
        put = self._put
        return TokenLists(
            put(row_start), put(np.concatenate(ids)), None if values is None else put(np.concatenate(values))
        )

    def _masks(self, masks: Sequence[Mask]) -> TokenMasks | None:
        """Pack masks of any length; tokens past the end of a mask are disallowed."""
        given = {row: mask for row, mask in enumerate(masks) if isinstance(mask, np.ndarray)}
        if not given:
            return None
        bits = np.zeros((len(given), -(-self._vocab_size // 8)), dtype=np.uint8)
        index = np.full(len(masks), -1, dtype=np.int32)
        for number, (row, mask) in enumerate(given.items()):
            data = mask[: bits.shape[1]]
            bits[number, : len(data)] = data
            index[row] = number
        return TokenMasks(self._put(bits), self._put(index))

    def _put(self, values: NDArray[Any]) -> Tensor:
        return upload_constant(values, self._device)


def _mask_bytes(mask: NDArray[Any] | None) -> NDArray[np.uint8] | None:
    return None if mask is None else np.ascontiguousarray(mask).view(np.uint8).reshape(-1)
