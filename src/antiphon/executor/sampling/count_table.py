"""`CountTable`: allocates slots of `TokenCounts` to requests with penalties."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.request import Request
from antiphon.executor.upload import upload_constant
from antiphon.ops import TokenCounts

FIRST_SLOTS, FIRST_CAPACITY = 4, 256


class CountTable:
    """Token counts on the device. Both dimensions grow when they are full; `counts` is then a new object."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._device = device
        self._free: list[int] = []
        self._most = 0  # upper bound of the number of distinct tokens in a slot
        self.counts = self._allocate(0, FIRST_CAPACITY)

    def take(self, request: Request) -> int:
        """Allocate a slot with the counts of a request's output and, for a repetition penalty, its prompt's tokens."""
        if not self._free:
            self._grow(max(FIRST_SLOTS, 2 * len(self.counts.num_ids)), self.counts.ids.shape[1])
        # A prompt may hold tokens outside the vocabulary, which are never sampled.
        prompt = request.prompt if request.params.repetition_penalty != 1.0 else ()
        known = {token: 0 for token in prompt if 0 <= token < self._vocab_size} | Counter(request.output)
        columns = (np.fromiter(column, np.int32, len(known)) for column in (known.keys(), known.values()))
        ids, counts = (upload_constant(column, self._device) for column in columns)
        if len(ids) > self.counts.ids.shape[1]:
            self._grow(len(self.counts.num_ids), 2 * len(ids))
        self._most = max(self._most, len(ids))
        slot = self._free.pop()
        self.counts.ids[slot, : len(ids)] = ids
        self.counts.counts[slot, : len(ids)] = counts
        self.counts.num_ids[slot] = len(ids)
        return slot

    def extended(self, slot: int, token: int) -> int:
        """Allocate a slot with the counts of another slot and one more token."""
        if not self._free:
            self._grow(2 * len(self.counts.num_ids), self.counts.ids.shape[1])
        new = self._free.pop()
        for column in (self.counts.ids, self.counts.counts, self.counts.num_ids):
            column[new] = column[slot]
        slots, tokens = (torch.tensor([value], dtype=torch.int32, device=self._device) for value in (new, token))
        self.count(slots, tokens)
        return new

    def release(self, slot: int) -> None:
        self.counts.num_ids[slot] = 0
        self._free.append(slot)

    def count(self, slots: Tensor, tokens: Tensor) -> None:
        """Count sampled tokens, one for each slot; -1 counts nothing."""
        capacity = self.counts.ids.shape[1]
        if self._most == capacity:
            # The bound took every token for a new one; reading the true number waits for the device, so do it rarely.
            self._most = int(self.counts.num_ids.max())
            if 2 * self._most > capacity:
                self._grow(len(self.counts.num_ids), 2 * capacity)
        self._most += 1
        ops.count_tokens(self.counts, slots, tokens)

    def _allocate(self, slots: int, capacity: int) -> TokenCounts:
        shapes = (slots, capacity), (slots, capacity), (slots,)
        return TokenCounts(*(torch.zeros(shape, dtype=torch.int32, device=self._device) for shape in shapes))

    def _grow(self, slots: int, capacity: int) -> None:
        old = self.counts
        self.counts = self._allocate(slots, capacity)
        num_slots, width = old.ids.shape
        self.counts.ids[:num_slots, :width] = old.ids
        self.counts.counts[:num_slots, :width] = old.counts
        self.counts.num_ids[:num_slots] = old.num_ids
        self._free += range(num_slots, slots)
