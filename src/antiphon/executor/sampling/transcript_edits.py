"""A transcript's rules applied to one row of logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.engine.transcript_rules import TranscriptRules

MINUS_INFINITY = float("-inf")


class TranscriptEdits:
    """The rules of one request; the transcript so far is read from its tokens."""

    def __init__(self, rules: TranscriptRules) -> None:
        self.rules = rules
        self._blank = torch.tensor(sorted(rules.blank), dtype=torch.int64)

    def open(self, logits: Tensor, num_output: int) -> bool:
        """Restrict the logits to what the opening allows; False after the opening."""
        if num_output >= len(self.rules.opening):
            return False
        allowed = torch.tensor(self.rules.opening[num_output], dtype=torch.int64)
        kept = logits[allowed].clone()
        logits.fill_(MINUS_INFINITY)
        logits[allowed] = kept
        return True

    def apply(self, logits: Tensor, tokens: Sequence[int]) -> None:
        """Change one row of logits [vocab] in place; `tokens` are all of the request's."""
        rules = self.rules
        length = len(tokens) - rules.begin
        if length == 0:
            logits[self._blank] = MINUS_INFINITY
        first = rules.first_timestamp
        if first is None:
            logits[rules.end_id + 1 :] = MINUS_INFINITY
            return
        if length == 0:
            logits[:first] = MINUS_INFINITY
            if rules.max_initial is not None:
                logits[first + rules.max_initial + 1 :] = MINUS_INFINITY
            return
        logits[first - 1] = MINUS_INFINITY  # the token for a transcript without timestamps
        was_timestamp = tokens[-1] >= first
        follows_timestamp = length < 2 or tokens[-2] >= first
        if was_timestamp and follows_timestamp:
            logits[first:] = MINUS_INFINITY
            return
        if was_timestamp:
            logits[: rules.end_id] = MINUS_INFINITY
        last = next((token for token in reversed(tokens[rules.begin :]) if token >= first), None)
        if last is not None:
            # Segments are not empty; only the timestamp that ends one may be repeated, to begin the next.
            logits[first : last if was_timestamp else last + 1] = MINUS_INFINITY
        stamps = logits[first:]
        if stamps.logsumexp(0) > logits[:first].max():
            logits[:first] = MINUS_INFINITY
