"""Sampling: Gumbel-max over the tokens that top-k, top-p and min-p keep."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.reference.philox import uniform
from antiphon.ops.types import SamplingRows


def sample(logits: Tensor, rows: SamplingRows, logprobs: bool = True) -> tuple[Tensor, Tensor | None]:
    """Sample a token per row of logits [R, V] → (tokens int64 [R], their log-probabilities under the raw logits [R]).

    Without `logprobs`, no log-probabilities are computed, which saves a pass over the logits.

    Gumbel-max with Philox noise: a row's token depends on its own logits, parameters, seed and index alone.
    """
    logits = logits.float()
    tokens = logits.argmax(-1)
    random = (rows.temperature > 0).nonzero().squeeze(-1)
    if len(random):
        own = SamplingRows(*(getattr(rows, name)[random] for name in SamplingRows.__dataclass_fields__))
        scaled = logits[random] / own.temperature[:, None]
        if bool(((own.top_k > 0) | (own.top_p < 1) | (own.min_p > 0)).any()):
            scaled = _keep(scaled, own)
        noise = -torch.log(-torch.log(uniform(own.seed, own.index, logits.shape[-1])))
        tokens[random] = (scaled + noise).argmax(-1)
    return tokens, logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1) if logprobs else None


def _keep(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Replace the scaled logits that top-k, then top-p and min-p exclude by -inf."""
    vocab = logits.shape[-1]
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(vocab, device=logits.device)[None, :]
    top_k = torch.where(rows.top_k > 0, rows.top_k, vocab)[:, None]
    ordered = ordered.masked_fill(rank >= top_k, float("-inf"))
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    drop = (before >= rows.top_p[:, None]) | (probabilities < rows.min_p[:, None] * probabilities[:, :1])
    drop[:, 0] = False
    return torch.empty_like(logits).scatter_(-1, order, ordered.masked_fill(drop, float("-inf")))
