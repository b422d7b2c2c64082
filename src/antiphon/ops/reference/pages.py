"""Reading and writing tokens of the paged cache in plain PyTorch; int8 pages are quantised and dequantised.

e4m3 pages hold the nearest e4m3 numbers, without a scale.
"""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.cache import OFFSET_UNIT, REGION_ALIGNMENT, SCALE_CHANNELS, LayerCache


def quantize_int8(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise x [..., channels] to int8 values and their fp16 scales [..., channels / 32]."""
    grouped = x.float().unflatten(-1, (-1, SCALE_CHANNELS))
    scale = (grouped.abs().amax(-1, keepdim=True) / 127).to(torch.float16)
    inverse = torch.where(scale > 0, 1.0 / scale.float(), 0.0)
    values = (grouped * inverse).round().clamp(-127, 127).to(torch.int8)
    return values.flatten(-2), scale.squeeze(-1)


def to_e4m3(x: Tensor) -> Tensor:
    """Round to the nearest e4m3 numbers, clamped to their range."""
    largest = torch.finfo(torch.float8_e4m3fn).max
    return x.float().clamp(-largest, largest).to(torch.float8_e4m3fn)


def _write(cache: LayerCache, slots: Tensor, values: Tensor, region: int) -> None:
    """Scatter values [T, heads, width] into the region that starts `region` bytes into each block's layer span."""
    tokens = cache.layout.block_tokens
    heads, width = values.shape[1:]
    size = values.element_size()
    entry, token = slots // tokens, slots % tokens
    base = (entry * OFFSET_UNIT + cache.key_offset + region) // size + token * width  # [T]
    head = torch.arange(heads, device=slots.device) * (tokens * width)
    index = base[:, None, None] + head[None, :, None] + torch.arange(width, device=slots.device)
    cache.arena.view(values.dtype)[index] = values


def write_pages(k: Tensor, v: Tensor, cache: LayerCache, slots: Tensor) -> None:
    """Store k, v [T, kv_heads, head_dim] at their slots; skip tokens with a negative slot."""
    layout = cache.layout
    if cache.key_balance is not None:
        k = k / cache.key_balance
    kept = slots >= 0
    if not bool(kept.all()):
        k, v, slots = k[kept], v[kept], slots[kept]
    regions = (
        (k, layout.key_dtype, 0, layout.key_scale_offset),
        (v, layout.value_dtype, layout.value_offset, layout.value_scale_offset),
    )
    for values, dtype, region, scale_region in regions:
        if dtype == torch.int8:
            values, scale = quantize_int8(values)
            _write(cache, slots, scale, scale_region)
        is_fp8 = dtype == torch.float8_e4m3fn
        _write(cache, slots, to_e4m3(values).view(torch.uint8) if is_fp8 else values.to(dtype), region)


def _read(cache: LayerCache, entries: Tensor, dtype: torch.dtype, width: int, region: int) -> Tensor:
    """Read one region of whole blocks → [blocks * block_tokens, heads, width]."""
    layout = cache.layout
    heads, tokens = layout.group.num_kv_heads, layout.block_tokens
    size = heads * tokens * width * dtype.itemsize
    rows = -(-size // REGION_ALIGNMENT)
    first = entries.long() * (OFFSET_UNIT // REGION_ALIGNMENT) + (cache.key_offset + region) // REGION_ALIGNMENT
    index = first[:, None] + torch.arange(rows, device=entries.device)
    spans = cache.arena.view(-1, REGION_ALIGNMENT)[index].flatten(1)[:, :size].contiguous()
    return spans.view(dtype).view(-1, heads, tokens, width).transpose(1, 2).flatten(0, 1)


def read_pages(cache: LayerCache, block_table: Tensor, start: int, end: int) -> tuple[Tensor, Tensor]:
    """Read keys and values [end - start, kv_heads, head_dim] of tokens start to end of a block table's row.

    Only these tokens' blocks are read, so entries of freed blocks may be arbitrary.
    """
    layout = cache.layout
    tokens = layout.block_tokens
    first = start // tokens
    entries = block_table[first : -(-end // tokens)]
    regions = (
        (layout.key_dtype, 0, layout.key_scale_offset),
        (layout.value_dtype, layout.value_offset, layout.value_scale_offset),
    )
    pages = []
    for dtype, region, scale_region in regions:
        page = _read(cache, entries, dtype, layout.group.head_dim, region)
        if dtype == torch.int8:
            scale = _read(cache, entries, torch.float16, layout.group.head_dim // SCALE_CHANNELS, scale_region)
            page = page.float() * scale.float().repeat_interleave(SCALE_CHANNELS, dim=-1)
        if dtype == torch.float8_e4m3fn:
            page = page.float()
        if region == 0 and cache.key_balance is not None:
            page = page * cache.key_balance
        pages.append(page[start - first * tokens : end - first * tokens])
    return pages[0], pages[1]
