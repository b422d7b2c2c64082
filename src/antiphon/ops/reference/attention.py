"""Attention over pages and over plain sequences, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.reference.pages import read_pages, write_pages


def store_kv(k: Tensor, v: Tensor, cache: LayerCache, group: GroupBatch) -> None:
    """Write k, v [T, kv_heads, D] to the group's slots; skip tokens with a negative slot."""
    write_pages(k, v, cache, group.slot_mapping)


def paged_attention(
    q: Tensor,
    cache: LayerCache,
    group: GroupBatch,
    scale: float,
    causal: bool = True,
    window: int | None = None,
    sinks: Tensor | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    sink_tokens: int = 0,
) -> Tensor:
    """Compute attention of q [T, heads, D] over the pages → [T, heads, D]; chunks and single tokens mix in one call.

    Request r's queries are the last of its seq_lens[r] cached tokens; with length 0 their result is 0. A query sees
    the last `window` tokens up to itself, and with a window also the first `sink_tokens`; blocks between these may be
    freed. `sinks` [heads] are extra logits without values; `bias` [heads, max_seq, max_seq] is added by position.
    """
    out = torch.zeros_like(q)
    starts, lengths, tables = group.query_start.tolist(), group.seq_lens.tolist(), _tables(group)
    for row, length in enumerate(lengths):
        queries = q[starts[row] : starts[row + 1]]
        if not len(queries) or not length:
            continue
        first = 0 if window is None else max(0, length - len(queries) - window + 1)
        key = torch.arange(first, length, device=q.device)
        k, v = read_pages(cache, tables[row], first, length)
        sink_end = min(sink_tokens, first)
        if sink_end:
            sink_k, sink_v = read_pages(cache, tables[row], 0, sink_end)
            k, v = torch.cat([sink_k, k]), torch.cat([sink_v, v])
            key = torch.cat([torch.arange(sink_end, device=q.device), key])
        visible = _visible(len(queries), key, length, causal, window, sink_tokens)
        own_bias = None if bias is None else bias[:, length - len(queries) : length, key]
        scores = _scores(queries, k, scale, visible, softcap, own_bias)
        out[starts[row] : starts[row + 1]] = _attend(_softmax(scores, sinks), v, queries)
    return out


def paged_attention_weights(
    q: Tensor, cache: LayerCache, group: GroupBatch, scale: float, heads: Sequence[int], causal: bool = False
) -> Tensor:
    """Compute attention probabilities [len(heads), T, S] of some heads' queries over cached tokens.

    S is at least the longest seq_len; probabilities past the end of a request are 0.
    """
    starts, lengths, tables = group.query_start.tolist(), group.seq_lens.tolist(), _tables(group)
    out = torch.zeros(len(heads), len(q), max(lengths, default=0), device=q.device)
    for row, length in enumerate(lengths):
        queries = q[starts[row] : starts[row + 1]]
        if not length:
            continue
        k, _ = read_pages(cache, tables[row], 0, length)
        visible = _visible(len(queries), torch.arange(length, device=q.device), length, causal)
        probabilities = _scores(queries, k, scale, visible, None, None).softmax(-1)
        out[:, starts[row] : starts[row + 1], :length] = probabilities[list(heads)]
    return out


def _tables(group: GroupBatch) -> Tensor:
    """Return the requests' block tables [R, max_blocks], in the order of the requests."""
    return group.block_tables if group.rows is None else group.block_tables[group.rows.long()]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seq_start: Tensor,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
    rounded: bool = False,
) -> Tensor:
    """Compute attention without a cache over sequences seq_start [R + 1], end to end → [T, heads, D].

    `rounded` allows a backend to round the factors of its products to int8 or 16 bits.
    """
    out = torch.empty_like(q)
    starts = seq_start.tolist()
    for start, end in pairwise(starts):
        length = end - start
        visible = _visible(length, torch.arange(length, device=q.device), length, causal)
        own_bias = None if bias is None else bias[:, :length, :length]
        scores = _scores(q[start:end], k[start:end], scale, visible, None, own_bias)
        out[start:end] = _attend(scores.softmax(-1), v[start:end], q[start:end])
    return out


def _scores(
    q: Tensor,
    k: Tensor,
    scale: float,
    visible: Tensor | None,
    softcap: float | None,
    bias: Tensor | None,
) -> Tensor:
    """Compute masked fp32 scores [heads, queries, keys] of q [queries, heads, dim] against k [keys, kv_heads, dim]."""
    k = k.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Compute probabilities over keys. A sink, one more logit per head, takes probability but has no value."""
    if sinks is None:
        return scores.softmax(-1)
    column = sinks.float().view(-1, 1, 1).expand(scores.shape[0], scores.shape[1], 1)
    return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]


def _attend(probabilities: Tensor, v: Tensor, q: Tensor) -> Tensor:
    v = v.float().repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    return torch.einsum("hqk,khd->qhd", probabilities, v).to(q.dtype)


def _visible(
    num_queries: int, key: Tensor, length: int, causal: bool, window: int | None = None, sink_tokens: int = 0
) -> Tensor | None:
    """Return a mask [queries, keys] of the keys that the last queries of `length` tokens see; None if all."""
    if not causal and window is None:
        return None
    query = torch.arange(length - num_queries, length, device=key.device)[:, None]
    visible = key <= query if causal else torch.ones(num_queries, len(key), dtype=torch.bool, device=key.device)
    return visible if window is None else visible & ((key > query - window) | (key < sink_tokens))
