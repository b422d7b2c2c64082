"""Native attention: bits that depend on neither company, chunks nor threads, and pages as the reference writes them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from antiphon.ops import CacheGroup, CacheKind, CacheLayout, GroupBatch, LayerCache, allocate_arena, native
from antiphon.ops.cache import OFFSET_UNIT
from antiphon.ops.reference import attention as reference

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")

HEADS, KV_HEADS, HEAD_DIM = 6, 2, 64
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8]
OPTIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "window": dict(window=270, sink_tokens=9),
    "short_window": dict(window=7),
    "softcap": dict(softcap=3.0),
    "sinks": dict(sinks=torch.linspace(-1, 1, HEADS)),
}


@dataclass(frozen=True)
class Requests:
    """Requests whose keys and values lie in scattered pages, with a query for every one of their tokens."""

    cache: LayerCache
    tables: Tensor
    queries: list[Tensor]  # [length, HEADS, HEAD_DIM], views of a fused product

    def attend(self, parts: list[tuple[int, int, int]], **options: object) -> list[Tensor]:
        """Attention for parts (request, begin, end) in one call; a part's queries see the tokens up to its end."""
        lengths = torch.tensor([end for _, _, end in parts], dtype=torch.int32)
        starts = torch.tensor([0, *(end - begin for _, begin, end in parts)]).cumsum(0).int()
        tables = self.tables[[request for request, _, _ in parts]]
        group = GroupBatch(torch.empty(0, dtype=torch.int64), tables, lengths, starts)
        q = torch.cat([self.queries[request][begin:end] for request, begin, end in parts])
        out = native.paged_attention(q, self.cache, group, HEAD_DIM**-0.5, **options)  # type: ignore[arg-type]
        return list(out.split([end - begin for _, begin, end in parts]))


def layer_cache(
    blocks: int, key_dtype: torch.dtype, value_dtype: torch.dtype, block_tokens: int = 16, kv_heads: int = KV_HEADS
) -> LayerCache:
    group = CacheGroup("g", CacheKind.FULL, 2, kv_heads, HEAD_DIM)
    layout = CacheLayout(group, block_tokens, key_dtype, value_dtype)
    arena = allocate_arena((blocks + 1) * layout.block_bytes)
    arena.fill_(0xFF)
    return LayerCache(arena, layout, 1)


def make_requests(
    lengths: list[int],
    key_dtype: torch.dtype = torch.float16,
    value_dtype: torch.dtype = torch.float16,
    block_tokens: int = 16,
    kv_heads: int = KV_HEADS,
) -> Requests:
    generator = torch.Generator().manual_seed(3)
    blocks = [-(-length // block_tokens) for length in lengths]
    cache = layer_cache(sum(blocks), key_dtype, value_dtype, block_tokens, kv_heads)
    order = torch.randperm(sum(blocks), generator=torch.Generator().manual_seed(4)) + 1
    tables = torch.zeros(len(lengths), max(blocks), dtype=torch.int32)
    queries = []
    for request, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        first = sum(blocks[:request])
        tables[request, :count] = order[first : first + count] * (cache.layout.block_bytes // OFFSET_UNIT)
        fused = torch.randn(length, HEADS + 2 * kv_heads, HEAD_DIM, generator=generator)
        q, k, v = fused.split([HEADS, kv_heads, kv_heads], dim=1)
        token = torch.arange(length)
        slots = tables[request].long()[token // block_tokens] * block_tokens + token % block_tokens
        native.store_kv(k, v, cache, GroupBatch(slots, tables, torch.tensor([length]), torch.tensor([0, length])))
        queries.append(q)
    return Requests(cache, tables, queries)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
def test_a_query_s_result_is_the_same_bits_in_any_company(options: dict[str, object], variant: int) -> None:
    lengths = [530, 40, 300]
    requests = make_requests(lengths)
    whole = [requests.attend([(r, 0, n)], threads=1, variant=variant, **options)[0] for r, n in enumerate(lengths)]
    for request, length in enumerate(lengths):
        for position in (0, 1, 39, 255, 256, 299, 511, 529):
            if position < length:
                alone = requests.attend([(request, position, position + 1)], threads=1, variant=variant, **options)
                assert torch.equal(alone[0], whole[request][position : position + 1])
    mixed = [(0, 529, 530), (1, 0, 40), (2, 100, 300), (0, 200, 213), (2, 299, 300)]
    for threads in (1, 2, 5):
        for (request, begin, end), got in zip(
            mixed, requests.attend(mixed, threads=threads, variant=variant, **options), strict=True
        ):
            assert torch.equal(got, whole[request][begin:end])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_threads_beyond_the_tiles_share_the_keys(dtype: torch.dtype) -> None:
    requests = make_requests([1500], dtype, dtype)
    for options in OPTIONS.values():
        alone = requests.attend([(0, 1499, 1500)], threads=1, **options)[0]
        for threads in (2, 3, 16):
            assert torch.equal(requests.attend([(0, 1499, 1500)], threads=threads, **options)[0], alone)


@pytest.mark.parametrize("kv_heads", [1, 3, 6])
def test_how_many_heads_are_read_together_changes_no_bit(kv_heads: int) -> None:
    lengths = [530, 40, 300]
    requests = make_requests(lengths, kv_heads=kv_heads)
    whole = [requests.attend([(r, 0, n)], threads=1)[0] for r, n in enumerate(lengths)]
    single = [(request, length - 1, length) for request, length in enumerate(lengths)]
    for parts in (single, single[1:2], [*single, (0, 100, 140)], single * 8):
        for threads in (1, 2, 5, 16):
            for (request, begin, end), got in zip(parts, requests.attend(parts, threads=threads), strict=True):
                assert torch.equal(got, whole[request][begin:end])


@pytest.mark.parametrize("block_tokens", [1, 2, 4, 64, 512])
def test_the_size_of_blocks_changes_no_bit(block_tokens: int) -> None:
    expected = make_requests([530]).attend([(0, 400, 530)], window=200)[0]
    assert torch.equal(make_requests([530], block_tokens=block_tokens).attend([(0, 400, 530)], window=200)[0], expected)


def test_what_a_later_token_holds_never_reaches_an_earlier_query() -> None:
    requests = make_requests([64], torch.float32, torch.float32)
    clean = requests.attend([(0, 0, 64)])[0]
    bad = torch.full((1, KV_HEADS, HEAD_DIM), float("nan"))
    slot = requests.tables[0, 40 // 16].long()[None] * 16 + 40 % 16
    group = GroupBatch(slot, requests.tables, torch.tensor([1]), torch.tensor([0, 1]))
    native.store_kv(bad, bad, requests.cache, group)
    spoilt = requests.attend([(0, 0, 64)])[0]
    assert torch.equal(spoilt[:40], clean[:40]) and bool(spoilt[40:].isnan().all())


@pytest.mark.parametrize("key_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
def test_pages_hold_the_bytes_that_the_reference_writes(
    key_dtype: torch.dtype, value_dtype: torch.dtype, variant: int
) -> None:
    fused = torch.randn(70, 2 * KV_HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(5))
    fused[0] = 0
    fused[1] *= 1e-7
    fused[2] *= 3e4
    fused[3] *= 1e-5
    k, v = fused.split([KV_HEADS, KV_HEADS], dim=1)
    ours, theirs = layer_cache(6, key_dtype, value_dtype), layer_cache(6, key_dtype, value_dtype)
    unit = ours.layout.block_bytes // OFFSET_UNIT
    slots = torch.randperm(96, generator=torch.Generator().manual_seed(6))[:70]
    slots = (slots // 16 + 1) * unit * 16 + slots % 16
    slots[5] = -1
    group = GroupBatch(slots, torch.zeros(1, 1).int(), torch.tensor([70]), torch.tensor([0, 70]))
    native.store_kv(k, v, ours, group, variant=variant)
    reference.store_kv(k, v, theirs, group)
    assert torch.equal(ours.arena, theirs.arena)


def test_sequences_without_a_cache_in_any_company() -> None:
    generator = torch.Generator().manual_seed(4)
    lengths = [140, 1, 77, 270]
    for head_dim in (64, 20):
        fused = torch.randn(sum(lengths), 3 * 4, head_dim, generator=generator)
        q, k, v = fused.split([4, 4, 4], dim=1)
        starts = torch.tensor([0, *lengths]).cumsum(0).int()
        for causal in (False, True):
            together = native.attention(q, k, v, starts, 0.2, causal, threads=1)
            assert torch.equal(native.attention(q, k, v, starts, 0.2, causal, threads=3), together)
            for begin, end in zip(starts.tolist(), starts.tolist()[1:], strict=False):
                own = torch.tensor([0, end - begin])
                alone = native.attention(q[begin:end], k[begin:end], v[begin:end], own, 0.2, causal, threads=2)
                assert torch.equal(alone, together[begin:end])


@pytest.mark.parametrize("variant", range(len(native.variants())))
@pytest.mark.parametrize(("sharpness", "most_error"), [(0.02, 0.002), (0.2, 0.01), (2.0, 0.03)])
def test_rounded_attention_is_near_the_exact_in_any_company(sharpness: float, most_error: float, variant: int) -> None:
    """Rounded to int8, weights spread over all keys and weights on a single one come out alike well."""
    generator = torch.Generator().manual_seed(5)
    lengths = [140, 1, 77, 270]
    q = torch.randn(sum(lengths), 4, 64, generator=generator)
    k, v = torch.randn(2, sum(lengths), 2, 64, generator=generator)
    v = v + 0.5
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    exact = reference.attention(q.double(), k.double(), v.double(), starts, sharpness)
    together = native.attention(q, k, v, starts, sharpness, rounded=True, threads=1, variant=variant)
    assert not torch.equal(together, native.attention(q, k, v, starts, sharpness))
    has_few_scales = native.variants()[variant] == "dotprod"
    error = ((together - exact).norm() / exact.norm()).item()
    assert error < (0.04 if has_few_scales and sharpness > 1 else most_error)
    assert torch.equal(native.attention(q, k, v, starts, sharpness, rounded=True, threads=3, variant=variant), together)
    for begin, end in zip(starts.tolist(), starts.tolist()[1:], strict=False):
        own = torch.tensor([0, end - begin])
        parts = q[begin:end], k[begin:end], v[begin:end]
        alone = native.attention(*parts, own, sharpness, rounded=True, threads=2, variant=variant)
        assert torch.equal(alone, together[begin:end])


@pytest.mark.parametrize("variant", range(len(native.variants())))
@pytest.mark.parametrize("head_dim", [32, 96, 128, 256, 288])
def test_rounded_attention_for_heads_of_any_width(head_dim: int, variant: int) -> None:
    generator = torch.Generator().manual_seed(7)
    starts = torch.tensor([0, 31, 64, 97]).int()
    q, k, v = torch.randn(3, 97, 2, head_dim, generator=generator)
    exact = reference.attention(q.double(), k.double(), v.double(), starts, head_dim**-0.5)
    rounded = native.attention(q, k, v, starts, head_dim**-0.5, rounded=True, variant=variant)
    assert ((rounded - exact).norm() / exact.norm()).item() < 0.02


@pytest.mark.parametrize("variant", range(len(native.variants())))
def test_rounded_attention_of_strange_numbers(variant: int) -> None:
    """Equal scores weigh alike; the largest score wins however large it is; what is not a number stays none."""
    generator = torch.Generator().manual_seed(8)
    starts = torch.tensor([0, 70]).int()
    q, k, v = torch.randn(3, 70, 1, 64, generator=generator)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float = 0.125) -> torch.Tensor:
        return native.attention(q, k, v, starts, scale, rounded=True, threads=1, variant=variant)

    for alike in (attend(torch.zeros_like(q), k, v), attend(q, torch.zeros_like(k), v), attend(1e-30 * q, k, v)):
        assert torch.allclose(alike, v.mean(0).expand_as(v), atol=0.02)
    assert torch.equal(attend(q, k, torch.zeros_like(v)), torch.zeros_like(v))
    assert torch.allclose(attend(k.flip(0), k, v, 1e6), v.flip(0), atol=0.03)
    broken = q.clone()
    broken[3, 0, 5] = float("nan")
    told = attend(broken, k, v)
    assert told[3].isnan().all()
    assert torch.equal(told[4:], attend(q, k, v)[4:])


def test_what_cannot_be_rounded_is_exact() -> None:
    generator = torch.Generator().manual_seed(6)
    starts = torch.tensor([0, 40]).int()
    for head_dim, causal in ((20, False), (64, True)):
        q, k, v = torch.randn(3, 40, 2, head_dim, generator=generator)
        exact = native.attention(q, k, v, starts, 0.2, causal)
        assert torch.equal(native.attention(q, k, v, starts, 0.2, causal, rounded=True), exact)


def test_other_dtypes_and_strides_are_read() -> None:
    requests = make_requests([20])
    group = GroupBatch(torch.empty(0).long(), requests.tables, torch.tensor([20]), torch.tensor([0, 20]))
    q = requests.queries[0]
    expected = native.paged_attention(q, requests.cache, group, 0.1)
    spread = torch.empty(20, HEADS, HEAD_DIM, 2)
    spread[..., 0] = q
    assert torch.equal(native.paged_attention(spread[..., 0], requests.cache, group, 0.1), expected)
    narrow = native.paged_attention(q.to(torch.bfloat16), requests.cache, group, 0.1)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), expected, atol=0.03, rtol=0.03)


def test_heads_that_do_not_fit_are_refused() -> None:
    requests = make_requests([20])
    group = GroupBatch(torch.empty(0).long(), requests.tables, torch.tensor([20]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="2 kv heads of 64"):
        native.paged_attention(torch.zeros(1, 5, HEAD_DIM), requests.cache, group, 0.1)
