"""Edits of logits before sampling: constraints, bias, penalties, typical sampling; all rows at once."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from antiphon.ops.logit_edits import LogitEditRows, Penalties, TokenCounts, TokenLists, TokenMasks

MINUS_INFINITY = float("-inf")


def edit_logits(logits: Tensor, edits: LogitEditRows) -> None:
    """Apply the edits of each row to logits [R, V], in place and in the order of `LogitEditRows`.

    A row's result depends on its own logits and edits alone.
    """
    if edits.masks is not None:
        _apply_masks(logits, edits.masks)
    if edits.allowed is not None:
        _keep_allowed(logits, edits.allowed)
    if edits.banned is not None:
        logits.index_put_(_indices(edits.banned), logits.new_tensor(MINUS_INFINITY))
    if edits.spans is not None:
        _keep_spans(logits, edits.spans)
    if edits.bias is not None:
        _add_bias(logits, edits.bias)
    if edits.penalties is not None:
        _penalize(logits, edits.penalties)
    if edits.typical is not None:
        _keep_typical(logits, edits.typical)


def count_tokens(counts: TokenCounts, slots: Tensor, tokens: Tensor) -> None:
    """Count one sampled token for each slot, in place. slots int32 [R] are distinct, or -1 for tokens not counted."""
    used = (slots >= 0).nonzero().squeeze(-1)
    slots, tokens = slots[used].long(), tokens[used].to(counts.ids.dtype)
    num_ids = counts.num_ids[slots].long()
    inside = torch.arange(counts.ids.shape[1], device=slots.device) < num_ids[:, None]
    same = (counts.ids[slots] == tokens[:, None]) & inside
    known = same.any(-1)
    indices = torch.where(known, same.int().argmax(-1), num_ids)
    counts.ids[slots, indices] = tokens
    counts.counts[slots, indices] = torch.where(known, counts.counts[slots, indices], 0) + 1
    counts.num_ids[slots] += (~known).to(counts.num_ids.dtype)


def _indices(lists: TokenLists) -> tuple[Tensor, Tensor]:
    """Return the row and the token of each entry of the lists."""
    lengths = lists.row_start.diff()
    return torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths), lists.ids.long()


def _apply_masks(logits: Tensor, masks: TokenMasks) -> None:
    rows = (masks.index >= 0).nonzero().squeeze(-1)
    vocab_size = logits.shape[1]
    packed = masks.bits[masks.index[rows].long()].to(torch.int32).view(-1)
    caps = _caps(logits.dtype, logits.device).index_select(0, packed).view(len(rows), -1)[:, :vocab_size]
    logits.index_copy_(0, rows, torch.minimum(logits.index_select(0, rows), caps))


@cache
def _caps(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return upper bounds [256, 8] of the eight logits of each mask byte: infinity if allowed, else minus infinity."""
    bits = torch.arange(256, device=device)[:, None] >> torch.arange(8, device=device) & 1  # [256, 8]
    return torch.where(bits.bool(), torch.inf, -torch.inf).to(dtype)


def _keep_allowed(logits: Tensor, allowed: TokenLists) -> None:
    indices = _indices(allowed)
    kept = logits[indices]
    restricted = (allowed.row_start.diff() > 0).nonzero().squeeze(-1)
    logits.index_fill_(0, restricted, MINUS_INFINITY)
    logits.index_put_(indices, kept)


def _keep_spans(logits: Tensor, spans: Tensor) -> None:
    tokens = torch.arange(logits.shape[1], device=logits.device)
    keep_from, keep_until, gap_from, gap_until, first = spans.T[:, :, None]  # [R, 1] each
    dropped = (tokens < keep_from) | (tokens >= keep_until) | ((tokens >= gap_from) & (tokens < gap_until))
    logits.masked_fill_(dropped, MINUS_INFINITY)
    timed = (spans[:, 4] >= 0).nonzero().squeeze(-1)
    rows, is_text = logits[timed].float(), tokens < first[timed]
    stamps = rows.masked_fill(is_text, MINUS_INFINITY)
    top = stamps.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    # Summed in double precision: the order of the terms depends on the number of rows and would change an fp32 sum.
    total = (stamps - top).exp().sum(-1, keepdim=True, dtype=torch.float64).log().float() + top
    likelier = total > rows.masked_fill(~is_text, MINUS_INFINITY).amax(-1, keepdim=True)
    logits[timed] = logits[timed].masked_fill(likelier & is_text, MINUS_INFINITY)


def _add_bias(logits: Tensor, bias: TokenLists) -> None:
    assert bias.values is not None
    indices = _indices(bias)
    moved = logits[indices].float() + bias.values
    banned = bias.values == MINUS_INFINITY
    logits.index_put_(indices, moved.masked_fill(banned, MINUS_INFINITY).to(logits.dtype))


def _penalize(logits: Tensor, penalties: Penalties) -> None:
    used = (penalties.slots >= 0).nonzero().squeeze(-1)
    slots = penalties.slots[used].long()
    lengths = penalties.counts.num_ids[slots].long()
    entry = torch.arange(len(used), device=used.device).repeat_interleave(lengths)
    starts = lengths.cumsum(0) - lengths
    column = torch.arange(len(entry), device=used.device) - starts[entry]
    ids = penalties.counts.ids[slots[entry], column].long()
    counts = penalties.counts.counts[slots[entry], column]
    repetition, presence, frequency = penalties.values[used[entry]].unbind(-1)
    indices = used[entry], ids
    values = logits[indices].float()
    values = torch.where(values > 0, values / repetition, values * repetition)
    values = torch.where(counts > 0, values - (presence + frequency * counts), values)
    logits.index_put_(indices, values.to(logits.dtype))


def _keep_typical(logits: Tensor, typical: Tensor) -> None:
    """Keep each row's tokens whose surprise is nearest to the entropy. arXiv:2202.00666."""
    used = ((typical[:, 0] < 1) & (typical[:, 1] > 0)).nonzero().squeeze(-1)
    typical_p, temperature = typical[used].split(1, dim=-1)
    logprobs = (logits[used].float() / temperature).log_softmax(-1)
    probabilities = logprobs.exp()
    terms = probabilities * logprobs.clamp(min=-1e30)
    entropy = -terms.sum(-1, keepdim=True, dtype=torch.float64).float()
    order = (-logprobs - entropy).abs().sort(stable=True).indices
    ordered = probabilities.gather(-1, order)
    dropped = ordered.cumsum(-1) - ordered >= typical_p
    dropped[:, 0] = False  # keep one token even if typical_p is 0
    removed = torch.empty_like(dropped).scatter_(-1, order, dropped)
    logits[used] = logits[used].masked_fill(removed, MINUS_INFINITY)
