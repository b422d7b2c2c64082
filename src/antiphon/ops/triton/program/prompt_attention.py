"""Lowering of attention in a step with prompts: one kernel prepares and stores the heads, another one attends."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.cache import LayerCache
from antiphon.ops.program import instructions as program
from antiphon.ops.program.traced import Traced
from antiphon.ops.triton.kernels.attention.heads import prepare_heads
from antiphon.ops.triton.kernels.attention.pages import SCALE_CHANNELS
from antiphon.ops.triton.kernels.attention.prefill import prefill_attention
from antiphon.ops.triton.kernels.attention.rotation import rotate_heads
from antiphon.ops.triton.kernels.attention.tiles import list_tiles
from antiphon.ops.triton.launch import ceil_power, prefill_tile, row_warps
from antiphon.ops.triton.pages import pages_of, store_launch
from antiphon.ops.triton.program.prompt import PromptBuilder


def _heads_of(step: PromptBuilder, heads: Traced) -> tuple[Tensor, int, int]:
    """Return the tensor of heads [T, heads, channels] from the first head on, and two strides in elements.

    The strides are from token to token and from head to head; channels are contiguous.
    """
    tensor = step.tensor(heads)
    return tensor.view(-1)[heads.offset :], int(heads.strides[0]), int(heads.strides[1])


def lower_heads(step: PromptBuilder, i: program.HeadsInstruction) -> None:
    heads, channels = int(i.q.shape[1]), int(i.q.shape[2])
    kv_heads, rotated = int(i.k.shape[1]), int(i.table.shape[1])
    (q, q_stride, q_inner), (k, k_stride, k_inner), (v, v_stride, v_inner) = (
        _heads_of(step, x) for x in (i.q, i.k, i.v)
    )
    out = step.take(i.q_out.value, heads * channels, step.compute_type)
    pages, slots = pages_of(i.cache), step.slots[i.group]
    gains = (step.side(i.q_gain, q), step.side(i.k_gain, q))
    sizes = {"H": heads, "HK": kv_heads, "D": channels, "DB": ceil_power(channels), "HB": ceil_power(heads),
             "HKB": ceil_power(kv_heads), "PAGE": i.cache.layout.block_tokens, "Q_NORM": i.q_gain is not None,
             "K_NORM": i.k_gain is not None, "BALANCED": pages.balanced}  # fmt: skip
    inputs = (*gains, step.tensor(i.table), step.tensor(i.positions), slots, *pages.regions, out)
    warps = row_warps(heads * channels)
    if rotated == channels and {q_inner, k_inner, v_inner} == {channels} and _halves_fit(i.cache, channels):
        step.launch(
            "heads", rotate_heads, (step.rows,),
            (q, k, v, *inputs, q_stride, k_stride, v_stride, *pages.bases, i.q_eps, i.k_eps),
            {**sizes, "HALFB": ceil_power(channels // 2)}, warps,
        )  # fmt: skip
        return
    step.launch(
        "heads", prepare_heads, (step.rows,),
        (q, k, v, *inputs, out, q_stride, q_inner, k_stride, k_inner, v_stride, v_inner, *pages.bases,
         i.q_eps, i.k_eps),
        {**sizes, "ROTATED": rotated, "STORE": True}, warps,
    )  # fmt: skip


def _halves_fit(cache: LayerCache, channels: int) -> bool:
    """Return whether half of a head can be stored separately: no scale of int8 pages may cover both halves."""
    scaled = torch.int8 in (cache.layout.key_dtype, cache.layout.value_dtype)
    return channels % 2 == 0 and (not scaled or channels // 2 % SCALE_CHANNELS.value == 0)


def lower_store(step: PromptBuilder, i: program.StoreInstruction) -> None:
    (k, *k_strides), (v, *v_strides) = (_heads_of(step, x) for x in (i.k, i.v))
    step.emit([store_launch(k, v, (*k_strides, *v_strides), i.cache, step.slots[i.group], step.rows)])


def lower_attention(step: PromptBuilder, i: program.PagedAttentionInstruction) -> None:
    if i.bias is not None:
        raise UnrecordableError("attention with a bias has no kernel in a step")
    heads, channels = int(i.q.shape[1]), int(i.q.shape[2])
    q, stride, inner = _heads_of(step, i.q)
    if inner != channels:
        raise UnrecordableError("queries whose heads do not lie end to end have no kernel in a step")
    group, cache, pages = step.inputs.groups[i.group], i.cache, pages_of(i.cache)
    kv_heads = cache.layout.group.num_kv_heads
    shared, requests = ceil_power(heads // kv_heads), len(group.seq_lens)
    tile = prefill_tile(step.compute_type, channels, shared, step.rows / requests, pages.element_bytes)
    tiles = _tiles(step, tile.queries)
    out = step.take(i.out.value, heads * channels, step.compute_type)
    step.launch(
        "attention", prefill_attention, (len(tiles), kv_heads),
        (q, tiles, step.inputs.tensors["query_start"], group.seq_lens, step.inputs.table_rows, group.tables,
         *pages.regions, step.side(i.sinks, q), out, stride, group.stride, *pages.bases, i.scale, i.softcap or 1.0),
        {"H": heads, "HK": kv_heads, "D": channels, "DB": max(16, ceil_power(channels)),
         "PAGE": cache.layout.block_tokens, "CAUSAL": i.causal, "WINDOW": i.window or 0,
         "SINK_TOKENS": i.sink_tokens if i.window else 0, "SOFTCAP": i.softcap is not None,
         "SINKS": i.sinks is not None, "BALANCED": pages.balanced, "G": shared, "TOKENS": tile.queries,
         "BT": tile.tokens, "STAGES": tile.stages},
        tile.warps,
    )  # fmt: skip


def _tiles(step: PromptBuilder, queries: int) -> Tensor:
    """Return the list of tiles of `queries` queries; the first layer that needs the list adds its kernel."""
    found = step.tiles.get(queries)
    if found is None:
        starts = step.inputs.tensors["query_start"]
        requests = len(starts) - 1
        count = min(step.rows, step.rows // queries + requests)
        found = step.tiles[queries] = step.workspace.take((count, 2), torch.int32)
        step.launch(
            "tiles", list_tiles, (requests + 1,), (starts, found, 0, requests, count, queries),
            {"REQUESTS": ceil_power(requests), "BLOCK": 128},
        )  # fmt: skip
    return found
