"""Attention over pages and over plain sequences.

A query's result has the same bits for any batch, any chunks of its prompt and any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.native.extension import extension
from antiphon.ops.threads import default_threads

_ELEMENTS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int8: 3}
#: Number of channels, or of keys, that share a scale in attention rounded to int8.
ROUNDED_GROUP = 32


def stores_pages(dtype: torch.dtype) -> bool:
    """Return whether there are kernels for pages of a type."""
    return dtype in _ELEMENTS


def pages_of(cache: LayerCache) -> Any:
    """Return the extension's view of a layer's pages, made once."""
    pages = cache.packed.get("native")
    if pages is None:
        layout, start = cache.layout, cache.key_offset
        pages = extension().Pages(
            cache.arena.data_ptr(), layout.group.num_kv_heads, layout.block_tokens, layout.group.head_dim,
            _ELEMENTS[layout.key_dtype], _ELEMENTS[layout.value_dtype], start, start + layout.value_offset,
            start + layout.key_scale_offset, start + layout.value_scale_offset,
            0 if cache.key_balance is None else cache.key_balance.data_ptr(),
        )  # fmt: skip
        cache.packed["native"] = pages
    return pages


@dataclass(frozen=True)
class GroupTables:
    """Tensors of a cache group in the extension's form, with their addresses."""

    tensors: tuple[Tensor, ...]
    slots: tuple[int, int]  # address, number of tokens
    tables: tuple[int, int, int]  # address, entries from one request to the next, entries of a request
    requests: tuple[int, int, int]  # addresses of lengths and starts, number of requests


def group_tables(group: GroupBatch) -> GroupTables:
    """Return the extension's form of a group's tensors, made once for all layers of a step."""
    found = group.packed.get("native")
    if found is None:
        slots = group.slot_mapping.to(torch.int64).contiguous()
        tables, lengths, starts = _integers(group.block_tables), _integers(group.seq_lens), _integers(group.query_start)
        if group.rows is not None:
            tables = tables.index_select(0, group.rows)
        found = GroupTables(
            (slots, tables, lengths, starts),
            (slots.data_ptr(), len(slots)),
            (tables.data_ptr(), tables.stride(0), tables.shape[1]),
            (lengths.data_ptr(), starts.data_ptr(), len(lengths)),
        )
        group.packed["native"] = found
    return found


def _padding(group: GroupBatch) -> tuple[GroupTables, Tensor] | None:
    """Return tables that give padding requests valid entries, and a mask of their queries; None without padding."""
    if "native padding" not in group.packed:
        empty = group.seq_lens == 0
        counts = group.query_start.diff()
        found = None
        if bool((empty & (counts > 0)).any()):
            lengths = torch.where(empty, counts, group.seq_lens)
            tables = group.block_tables if group.rows is None else group.block_tables.index_select(0, group.rows)
            tables = tables.masked_fill(empty[:, None], 0)
            whole = GroupBatch(group.slot_mapping, tables, lengths, group.query_start)
            found = group_tables(whole), empty.repeat_interleave(counts)
        group.packed["native padding"] = found
    padding: tuple[GroupTables, Tensor] | None = group.packed["native padding"]
    return padding


def _integers(x: Tensor) -> Tensor:
    return x.to(torch.int32).contiguous()


def _heads(x: Tensor) -> tuple[Tensor, int, int, int]:
    """Return x [T, heads, D] in fp32 with contiguous channels, its address, and its strides by token and by head."""
    if x.dtype is not torch.float32:
        x = x.float()
    token, head, channel = x.stride()
    if channel != 1:
        x = x.contiguous()
        token, head, _ = x.stride()
    return x, x.data_ptr(), token, head


def _bias(bias: Tensor | None) -> tuple[Tensor | None, int, int, int]:
    """Return a bias in fp32, which the caller keeps alive, with its address and strides by head and by query."""
    if bias is None:
        return None, 0, 0, 0
    bias = bias.float()
    if bias.stride(2) != 1:
        bias = bias.contiguous()
    return bias, bias.data_ptr(), bias.stride(0), bias.stride(1)


def store_kv(
    k: Tensor, v: Tensor, cache: LayerCache, group: GroupBatch, threads: int | None = None, variant: int = 0
) -> None:
    kv_heads, head_dim = cache.layout.group.num_kv_heads, cache.layout.group.head_dim
    slots, count = group_tables(group).slots
    if not k.shape == v.shape == (count, kv_heads, head_dim):
        raise ValueError(f"k and v are {tuple(k.shape)} and {tuple(v.shape)}, not {(count, kv_heads, head_dim)}")
    k_view, v_view = _heads(k), _heads(v)
    pages_of(cache).store(*k_view[1:], *v_view[1:], slots, count, threads or default_threads(), variant)


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
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    kv_heads, head_dim = cache.layout.group.num_kv_heads, cache.layout.group.head_dim
    tokens, heads, channels = q.shape
    if channels != head_dim or heads % kv_heads:
        raise ValueError(f"q is {tuple(q.shape)}; the pages have {kv_heads} kv heads of {head_dim} channels")
    view = _heads(q)
    out = torch.empty(tokens, heads, head_dim)
    padding = _padding(group)
    own = group_tables(group) if padding is None else padding[0]
    sinks = None if sinks is None else sinks.float().contiguous()
    bias_view = _bias(bias)
    pages_of(cache).attend(
        *view[1:], tokens, heads, *own.tables, *own.requests, scale, causal, window or 0, sink_tokens,
        0 if sinks is None else sinks.data_ptr(), softcap or 0.0, *bias_view[1:], out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    if padding is not None:
        out[padding[1]] = 0.0
    return out if q.dtype is torch.float32 else out.to(q.dtype)


def can_round(head_dim: int, causal: bool, bias: object | None) -> bool:
    """Return whether a kernel rounds to int8: only unmasked attention over heads of whole groups of channels."""
    return head_dim % ROUNDED_GROUP == 0 and not causal and bias is None


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seq_start: Tensor,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
    rounded: bool = False,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    tokens, heads, head_dim = q.shape
    kv_heads = k.shape[1]
    if k.shape != v.shape or k.shape[0] != tokens or k.shape[2] != head_dim or heads % kv_heads:
        raise ValueError(f"q, k and v are {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}")
    views = [_heads(x) for x in (q, k, v)]
    starts = _integers(seq_start)
    out = torch.empty(tokens, heads, head_dim)
    bias_view = _bias(bias)
    extension().attention(
        *(number for view in views for number in view[1:]), heads, kv_heads, head_dim, starts.data_ptr(),
        len(starts) - 1, scale, causal, *bias_view[1:], rounded and can_round(head_dim, causal, bias), out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out if q.dtype is torch.float32 else out.to(q.dtype)
