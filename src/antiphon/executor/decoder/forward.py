"""`Forward`: the forward pass of a token decoder, as a recorded program if possible, else operation by operation."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.executor.recorded import Recorded
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Batch, KVCache


class Forward:
    """Forward pass of a token decoder over one cache, called with one batch at a time.

    The logits of a recorded forward are in a buffer that the next call overwrites: a caller that needs them longer
    copies them.
    """

    def __init__(self, decoder: TokenDecoder, cache: KVCache, wanted: bool) -> None:
        self._decoder = decoder
        self._cache = cache
        self.logit_width = decoder.vocab_size
        self.recorded = Recorded(decoder.step(cache), wanted)
        #: Used in steps with adapters, so that other steps avoid their cost.
        self.adapted = Recorded(decoder.step(cache, adapted=True), wanted)
        self._logits = torch.empty(0)
        #: Seconds that the last call spent in the program; 0 without a program.
        self.native_seconds = 0.0

    def logits(self, count: int) -> Tensor:
        """Return a buffer for `count` rows of logits, which the next step reuses."""
        if self._logits.numel() < count * self.logit_width:
            self._logits = torch.empty(count * self.logit_width)
        return self._logits

    def __call__(self, batch: Batch) -> Tensor:
        recorded = self.recorded if batch.adapters is None else self.adapted
        program = recorded.program() if batch.embeds is None else None
        if program is None:
            self.native_seconds = 0.0
            return self._decoder.forward(batch, self._cache)
        inputs = {
            "token_ids": batch.token_ids, "positions": batch.positions, "query_start": batch.query_start,
            "logit_rows": batch.logit_rows, "adapters": batch.adapters,
        }  # fmt: skip
        logits = program.run(inputs, batch.groups, self.logits(len(batch.logit_rows)))  # type: ignore[arg-type]
        self.native_seconds = program.native_seconds
        return logits
