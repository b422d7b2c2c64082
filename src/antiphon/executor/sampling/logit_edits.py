"""Changes to a request's logits before sampling: constraints, bias, penalties, typical sampling."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.request import Request
from antiphon.executor.sampling.bitmask import apply_bitmask
from antiphon.executor.sampling.transcript_edits import TranscriptEdits

MINUS_INFINITY = float("-inf")


def edits_of(request: Request) -> LogitEdits | None:
    """The edits of a request, or None if it has none."""
    if request.constraint is None and request.rules is None and not request.params.edits_logits:
        return None
    return LogitEdits(request)


class LogitEdits:
    """One row's edits, with the counts of its tokens where penalties need them."""

    def __init__(self, request: Request) -> None:
        self.request = request
        params = request.params
        self._bias_ids = torch.tensor(list(params.logit_bias), dtype=torch.int64)
        self._bias = torch.tensor(list(params.logit_bias.values()), dtype=torch.float32)
        allowed = params.allowed_tokens
        self._allowed = None if allowed is None else torch.tensor(sorted(allowed), dtype=torch.int64)
        self._banned = torch.tensor(sorted(params.banned_tokens), dtype=torch.int64)
        self._stops = torch.tensor(sorted(request.stop_ids), dtype=torch.int64)
        self._transcript = None if request.rules is None else TranscriptEdits(request.rules)
        self._output_counts: dict[int, int] = {}
        self._prompt_ids = frozenset(request.prompt) if params.repetition_penalty != 1.0 else frozenset()
        if params.has_penalties:
            for token in request.output:
                self._count(token)

    def _count(self, token: int) -> None:
        self._output_counts[token] = self._output_counts.get(token, 0) + 1

    def took(self, token: int) -> None:
        """Count a token that was drawn from this row."""
        if self.request.params.has_penalties:
            self._count(token)

    def apply(self, logits: Tensor) -> None:
        """Change one row of logits [vocab] in place."""
        params, request = self.request.params, self.request
        if self._transcript is not None and self._transcript.open(logits, request.num_output_tokens):
            return
        if request.constraint is not None:
            mask = request.constraint.mask()
            if mask is not None:
                apply_bitmask(logits[None], [mask])
        if self._allowed is not None:
            kept = logits[self._allowed].clone()
            logits.fill_(MINUS_INFINITY)
            logits[self._allowed] = kept
        if len(self._banned):
            logits[self._banned] = MINUS_INFINITY
        if self._transcript is not None:
            self._transcript.apply(logits, request.tokens)
        if len(self._stops) and request.num_output_tokens < params.min_tokens:
            logits[self._stops] = MINUS_INFINITY
        if len(self._bias_ids):
            logits[self._bias_ids] += self._bias
        if params.has_penalties:
            self._penalize(logits)
        if params.typical_p < 1.0 and params.temperature > 0:
            keep_typical(logits, params.temperature, params.typical_p)

    def _penalize(self, logits: Tensor) -> None:
        params = self.request.params
        if params.repetition_penalty != 1.0:
            seen = torch.tensor(sorted(self._prompt_ids | self._output_counts.keys()), dtype=torch.int64)
            values = logits[seen]
            penalty = params.repetition_penalty
            logits[seen] = torch.where(values > 0, values / penalty, values * penalty)
        if self._output_counts and (params.presence_penalty or params.frequency_penalty):
            ids = torch.from_numpy(np.fromiter(self._output_counts, dtype=np.int64))
            counts = torch.from_numpy(np.fromiter(self._output_counts.values(), dtype=np.float32))
            logits[ids] -= params.presence_penalty + params.frequency_penalty * counts


def keep_typical(logits: Tensor, temperature: float, typical_p: float) -> None:
    """Keep the tokens whose surprise is nearest to the entropy, up to this total probability. arXiv:2202.00666."""
    logprobs = (logits / temperature).log_softmax(-1)
    probabilities = logprobs.exp()
    entropy = -(probabilities * logprobs.clamp(min=-1e30)).sum()
    _, order = (-logprobs - entropy).abs().sort(stable=True)
    ordered = probabilities[order]
    dropped = ordered.cumsum(-1) - ordered >= typical_p
    dropped[0] = False  # also where the total rounds to 0
    logits[order[dropped]] = MINUS_INFINITY
