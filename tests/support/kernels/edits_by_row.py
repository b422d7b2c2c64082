"""Logit edits one request at a time: a plain reference for the batched operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.request import Request
from antiphon.engine.transcript_rules import TranscriptRules

MINUS_INFINITY = float("-inf")


def edit_row(logits: Tensor, request: Request) -> None:
    """Apply a request's edits to its row of logits [vocab], in place."""
    params, rules = request.params, request.rules
    if rules is not None and request.num_output_tokens < len(rules.opening):
        keep(logits, rules.opening[request.num_output_tokens])
        return
    mask = None if request.constraint is None else request.constraint.mask()
    if mask is not None:
        bits = np.unpackbits(np.ascontiguousarray(mask).view(np.uint8), bitorder="little")[: len(logits)]
        keep(logits, np.flatnonzero(bits).tolist())
    if params.allowed_tokens is not None:
        keep(logits, sorted(params.allowed_tokens))
    logits[sorted(params.banned_tokens)] = MINUS_INFINITY
    if rules is not None:
        follow(rules, logits, request.tokens)
    if request.num_output_tokens < params.min_tokens:
        logits[sorted(request.stop_ids)] = MINUS_INFINITY
    for token, bias in params.logit_bias.items():
        logits[token] += bias
    counts = Counter(request.output)
    if params.repetition_penalty != 1.0:
        for token in set(request.prompt) | set(counts):
            value, penalty = logits[token], params.repetition_penalty
            logits[token] = value / penalty if value > 0 else value * penalty
    for token, count in counts.items():
        logits[token] -= params.presence_penalty + params.frequency_penalty * torch.tensor(float(count))
    if params.typical_p < 1.0 and params.temperature > 0:
        keep_typical(logits, params.temperature, params.typical_p)


def keep(logits: Tensor, tokens: Sequence[int]) -> None:
    kept = logits[list(tokens)].clone()
    logits.fill_(MINUS_INFINITY)
    logits[list(tokens)] = kept


def follow(rules: TranscriptRules, logits: Tensor, tokens: Sequence[int]) -> None:
    """Apply a transcript's rules after its opening; `tokens` are the prompt and output of the request."""
    length = len(tokens) - rules.begin
    if length == 0:
        logits[sorted(rules.blank)] = MINUS_INFINITY
    first = rules.first_timestamp
    if first is None:
        logits[rules.end_id + 1 :] = MINUS_INFINITY
        return
    if length == 0:
        logits[:first] = MINUS_INFINITY
        if rules.max_initial is not None:
            logits[first + rules.max_initial + 1 :] = MINUS_INFINITY
        return
    logits[first - 1] = MINUS_INFINITY  # token that starts a transcript without timestamps
    was_timestamp = tokens[-1] >= first
    follows_timestamp = length < 2 or tokens[-2] >= first
    if was_timestamp and follows_timestamp:
        logits[first:] = MINUS_INFINITY
        return
    if was_timestamp:
        logits[: rules.end_id] = MINUS_INFINITY
    last = next((token for token in reversed(tokens[rules.begin :]) if token >= first), None)
    if last is not None:
        logits[first : last if was_timestamp else last + 1] = MINUS_INFINITY
    if logits[first:].logsumexp(0) > logits[:first].max():
        logits[:first] = MINUS_INFINITY


def keep_typical(logits: Tensor, temperature: float, typical_p: float) -> None:
    """Keep the tokens whose surprise is nearest to the entropy, up to a total probability of `typical_p`."""
    logprobs = (logits / temperature).log_softmax(-1)
    probabilities = logprobs.exp()
    entropy = -(probabilities * logprobs.clamp(min=-1e30)).sum()
    _, order = (-logprobs - entropy).abs().sort(stable=True)
    ordered = probabilities[order]
    dropped = ordered.cumsum(-1) - ordered >= typical_p
    dropped[0] = False  # keep a token even if the total rounds to 0
    logits[order[dropped]] = MINUS_INFINITY
