"""Attention kernels on random shapes: page types, windows, sinks, padding, rows of a larger table."""

from __future__ import annotations

import pytest
import torch

from antiphon import ops
from antiphon.ops import GroupBatch, RotaryTable
from antiphon.ops.cache import LayerCache
from antiphon.ops.triton.kernels.attention.decode import decode_attention
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.triton.pages import pages_of
from support.kernels.triton_cases import error, expected_attention, normal, number, pick, scatter

PAGE_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn)
#: The interpreter does not round to bf16 but cuts off.
STORED_TYPES = tuple(t for t in PAGE_TYPES if t is not torch.bfloat16 or torch.cuda.is_available())


def options(generator: torch.Generator, heads: int, device: torch.device) -> dict[str, object]:
    """Random features of attention."""
    chosen: dict[str, object] = {"scale": 0.2}
    if number(generator, 0, 1):
        chosen |= {"window": number(generator, 1, 40), "sink_tokens": number(generator, 0, 9)}
    if number(generator, 0, 1):
        chosen["sinks"] = normal(generator, heads).to(device)
    if number(generator, 0, 1):
        chosen["softcap"] = 3.0
    return chosen


@pytest.mark.parametrize("step", ["decodes", "chunks", "mixed"])
def test_paged_attention(step: str, generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    for dtype, tolerance in ((torch.float32, 2e-5), (half, 8e-3)):
        kv_heads, shared = number(generator, 1, 3), number(generator, 1, 3)
        types = pick(generator, PAGE_TYPES), pick(generator, PAGE_TYPES)
        channels = pick(generator, (32, 96) if torch.int8 in types else (32, 48, 80))
        lengths = [number(generator, 1, 90) for _ in range(3)]
        counts = [1 if step == "decodes" else number(generator, 1, length) for length in lengths]
        if step != "chunks":
            lengths, counts = [lengths[0], 0, *lengths[1:]], [1, 1, *counts[1:]]  # the second is padding
        pages = scatter(lengths, kv_heads, channels, *types, generator, device, pick(generator, (4, 16)))
        q = normal(generator, sum(counts), kv_heads * shared, channels).to(device).to(dtype)
        decodes = {"decodes": len(lengths), "chunks": 0, "mixed": 2}[step]
        chosen = options(generator, kv_heads * shared, device)
        with ops.use_backend("triton"):
            got = ops.paged_attention(q, pages.cache, pages.group(lengths, counts, decodes), **chosen)
        assert got.dtype is dtype
        assert error(got, expected_attention(q, pages, lengths, counts, **chosen)) < tolerance


def test_attention_to_encoder_states(generator: torch.Generator, device: torch.device) -> None:
    lengths, counts = [50, 21], [3, 1]
    pages = scatter(lengths, 2, 32, torch.float32, torch.float32, generator, device)
    q = normal(generator, 4, 2, 32).to(device)
    with ops.use_backend("triton"):
        got = ops.paged_attention(q, pages.cache, pages.group(lengths, counts), 0.2, causal=False)
    assert error(got, expected_attention(q, pages, lengths, counts, scale=0.2, causal=False)) < 2e-5


def test_probabilities_over_encoder_states(generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    """Of some heads, over pages of a random type; the third request has no tokens, and the last query no request."""
    lengths, counts, chosen = [50, 21, 0], [2, 1, 1], [3, 1]
    pages = scatter(lengths, 2, 32, pick(generator, PAGE_TYPES), torch.float32, generator, device)
    q = normal(generator, 5, 4, 32).to(device).to(half)
    with ops.use_backend("triton"):
        got = ops.paged_attention_weights(q, pages.cache, pages.group(lengths, counts), 0.2, chosen)
    with ops.use_backend("reference"):
        expected = ops.paged_attention_weights(q, pages.cache, pages.group(lengths, counts), 0.2, chosen)
    assert error(got[..., :50], expected.double()) < 1e-5 and got.dtype is torch.float32
    assert not got[..., 50:].any() and not got[:, 3:].any()


@pytest.mark.parametrize("key_type", STORED_TYPES)
def test_store_writes_the_reference_s_bytes(
    key_type: torch.dtype, generator: torch.Generator, device: torch.device
) -> None:
    channels = pick(generator, (32, 96) if key_type is torch.int8 else (32, 48))
    balance = torch.exp2(torch.randint(-2, 3, (2, channels), generator=generator).float()).to(device)
    pages = scatter([5, 9], 2, channels, key_type, pick(generator, STORED_TYPES[:2]), generator, device, spare=8,
                    balance=balance if key_type is torch.int8 else None)  # fmt: skip
    fused = normal(generator, 6, 4, channels).to(device)
    k, v = fused[:, :2], fused[:, 2:]
    slots = torch.cat([pages.slots(0, 5, 9), pages.slots(1, 9, 11)])
    slots[3] = -1
    group = GroupBatch(slots, pages.tables, pages.rows, pages.rows)
    arenas = []
    for backend in ("reference", "triton"):
        cache = LayerCache(pages.cache.arena.clone(), pages.cache.layout, 1, pages.cache.key_balance)
        with ops.use_backend(backend):
            ops.store_kv(k, v, cache, group)
        arenas.append(cache.arena)
    assert torch.equal(*arenas)
    assert not torch.equal(arenas[0], pages.cache.arena)


@pytest.mark.parametrize(("splits", "early"), [(1, False), (1, True), (3, False), (4, True)])
def test_decode_with_norm_rotation_and_store(
    splits: int, early: bool, generator: torch.Generator, device: torch.device, half: torch.dtype
) -> None:
    """One kernel does what five operations do, for requests that have one new token each; one request is padding."""
    kv_heads, shared, channels = 2, number(generator, 1, 3), pick(generator, (32, 64, 96))
    heads, past = kv_heads * shared, [number(generator, 0, 60), 0, number(generator, 0, 60)]
    types = pick(generator, STORED_TYPES), pick(generator, STORED_TYPES)
    rotated = pick(generator, (0, channels, channels // 2))
    pages = scatter(past, kv_heads, channels, *types, generator, device, spare=1)
    lengths = [past[0] + 1, 0, past[2] + 1]
    qkv = normal(generator, 3, (heads + 2 * kv_heads) * channels).to(device)
    gains = 0.5 + torch.rand(2, channels, generator=generator).to(device)
    angles = torch.rand(99, max(rotated, 2) // 2, generator=generator)
    table = torch.cat([angles.cos(), angles.sin()], 1).to(device)
    seq_lens = torch.tensor(lengths, dtype=torch.int32, device=device)
    mine = LayerCache(pages.cache.arena.clone(), pages.cache.layout, 1)
    view = pages_of(mine)
    out = torch.empty(3, heads * channels, dtype=half, device=device)
    partial = torch.empty(3 * heads * splits * channels, device=device)
    tops, totals = torch.empty(2, 3 * heads * splits, device=device)
    counters = torch.zeros(3 * kv_heads, dtype=torch.int32, device=device)
    decode_attention[(splits, kv_heads, 3)](
        qkv, *gains, table, seq_lens, pages.rows, pages.tables, *view.regions, qkv, out, out, out, partial, tops,
        totals, counters, qkv.stride(0), pages.tables.stride(0), *view.bases, 0.2, 1.0, 1e-6,
        H=heads, HK=kv_heads, D=channels, DB=ceil_power(channels), ROTATED=rotated, PAGE=16, WINDOW=0,
        SINK_TOKENS=0, NORM=True, SOFTCAP=False, SINKS=False, BALANCED=False, NEW=True,
        GROUP=max(16, ceil_power(shared)), SPLITS=splits, JOINED=2, BT=16,
        STAGES=1, EARLY=early, PACKED=False, PDL=False,
    )  # fmt: skip
    q, k, v = qkv.view(3, -1, channels).split([heads, kv_heads, kv_heads], 1)
    with ops.use_backend("reference"):
        q, k = ops.rms_norm(q, gains[0], 1e-6)[0], ops.rms_norm(k, gains[1], 1e-6)[0]
        if rotated:
            q, k = ops.rotary(q, k, (seq_lens - 1).clamp(min=0), RotaryTable(table))
        slots = torch.cat([pages.slots(0, past[0], past[0] + 1), pages.slots(2, past[2], past[2] + 1)])
        ops.store_kv(k[[0, 2]], v[[0, 2]], pages.cache, GroupBatch(slots, pages.tables, pages.rows, pages.rows))
    expected = expected_attention(q, pages, lengths, [1, 1, 1], scale=0.2)
    assert error(out.view(3, heads, channels), expected) < 8e-3
    assert not counters.any()
    pages.cache = mine
    assert error(expected_attention(q, pages, lengths, [1, 1, 1], scale=0.2), expected) < 4e-3


def test_attention_of_sequences(generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    for dtype, tolerance in ((torch.float32, 2e-5), (half, 8e-3)):
        kv_heads, shared, channels = number(generator, 1, 3), number(generator, 1, 2), pick(generator, (16, 48, 64))
        heads, lengths = kv_heads * shared, [number(generator, 1, 70) for _ in range(3)]
        starts = torch.tensor([0, *lengths]).cumsum(0).int().to(device)
        fused = normal(generator, sum(lengths), heads + 2 * kv_heads, channels).to(device).to(dtype)
        q, k, v = fused.split([heads, kv_heads, kv_heads], 1)
        longest = max(lengths)
        bias = normal(generator, heads, longest, longest).to(device) if number(generator, 0, 1) else None
        causal = bool(number(generator, 0, 1))
        with ops.use_backend("triton"):
            got = ops.attention(q, k, v, starts, 0.2, causal, bias)
        with ops.use_backend("reference"):
            expected = ops.attention(q.float(), k.float(), v.float(), starts, 0.2, causal, bias)
        assert got.dtype is dtype and error(got, expected) < tolerance
