"""Attention over pages and over plain sequences, query by query against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.ops import CacheGroup, CacheKind, CacheLayout, GroupBatch, LayerCache
from antiphon.ops.cache import OFFSET_UNIT
from support.kernels.conformance import TOLERANCE, checks, relative

PAGE_TOLERANCE = {torch.float32: TOLERANCE, torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.int8: 1.5e-2}


class Pages:
    """Requests with known keys and values in scattered blocks; everything not written is NaN."""

    def __init__(
        self, lengths: list[int], queries: list[int], generator: torch.Generator,
        key_dtype: torch.dtype = torch.float32, value_dtype: torch.dtype = torch.float32, kv_heads: int = 2,
        head_dim: int = 32, window: int | None = None,
    ) -> None:  # fmt: skip
        kind = CacheKind.WINDOW if window else CacheKind.FULL
        layout = CacheLayout(CacheGroup("g", kind, 3, kv_heads, head_dim, window), 4, key_dtype, value_dtype)
        blocks = [-(-length // 4) for length in lengths]
        order = torch.randperm(sum(blocks), generator=generator).tolist()
        arena = ops.allocate_arena((sum(blocks) + 1) * layout.block_bytes)
        arena.fill_(0xFF)
        self.tables = torch.zeros(len(lengths), max(blocks), dtype=torch.int32)
        for row, count in enumerate(blocks):
            for column in range(count):
                self.tables[row, column] = (order.pop() + 1) * layout.block_bytes // OFFSET_UNIT
        self.cache = LayerCache(arena, layout, 1)
        self.keys = [torch.randn(n, kv_heads, head_dim, generator=generator) for n in lengths]
        self.values = [torch.randn(n, kv_heads, head_dim, generator=generator) for n in lengths]
        for row, length in enumerate(lengths):
            entries = self.tables[row].long()[torch.arange(length) // 4]
            slots = entries * 4 + torch.arange(length) % 4
            group = GroupBatch(slots, self.tables, torch.tensor(lengths), torch.tensor([0, length]))
            ops.store_kv(self.keys[row], self.values[row], self.cache, group)
        starts = torch.tensor([0, *queries]).cumsum(0).int()
        slots = torch.empty(0, dtype=torch.int64)
        self.group = GroupBatch(slots, self.tables, torch.tensor(lengths, dtype=torch.int32), starts)
        self.queries = queries
        self.q = torch.randn(sum(queries), 4, head_dim, generator=generator)

    def expected(
        self, scale: float, causal: bool = True, window: int | None = None, sinks: Tensor | None = None,
        softcap: float | None = None, bias: Tensor | None = None, sink_tokens: int = 0,
    ) -> Tensor:  # fmt: skip
        """Query by query and head by head in float64."""
        out = []
        for keys, values, q in zip(self.keys, self.values, self.q.split(self.queries), strict=True):
            length, count = len(keys), len(q)
            for i in range(count):
                position = length - count + i
                last = position + 1 if causal else length
                first = max(0, position - window + 1) if window else 0
                seen = torch.tensor([t for t in range(last) if t >= first or t < sink_tokens])
                heads = []
                for head in range(4):
                    kv = head // (4 // keys.shape[1])
                    logits = keys[seen, kv].double() @ q[i, head].double() * scale
                    if softcap:
                        logits = (logits / softcap).tanh() * softcap
                    if bias is not None:
                        logits = logits + bias[head, position, seen].double()
                    weights = logits.exp()
                    total = weights.sum() + (sinks[head].double().exp() if sinks is not None else 0)
                    heads.append(weights @ values[seen, kv].double() / total)
                out.append(torch.stack(heads))
        return torch.stack(out)


LENGTHS, QUERIES = [9, 1, 30, 17, 4], [1, 1, 12, 17, 4]


@pytest.mark.parametrize("key_dtype", PAGE_TOLERANCE)
@pytest.mark.parametrize("value_dtype", PAGE_TOLERANCE)
def test_paged_attention_dtypes(key_dtype: torch.dtype, value_dtype: torch.dtype, generator: torch.Generator) -> None:
    pages = Pages(LENGTHS, QUERIES, generator, key_dtype, value_dtype)
    got = ops.paged_attention(pages.q, pages.cache, pages.group, 0.2)
    tolerance = max(PAGE_TOLERANCE[key_dtype], PAGE_TOLERANCE[value_dtype])
    assert relative(got, pages.expected(0.2)) < tolerance


@pytest.mark.parametrize("kind", ["keys", "values", "both"])
def test_paged_attention_of_fp8(kind: str, generator: torch.Generator) -> None:
    if not ops.stores_pages(torch.float8_e4m3fn):
        pytest.skip("the backend has no fp8 pages")
    types = [torch.float8_e4m3fn if kind in (name, "both") else torch.float32 for name in ("keys", "values")]
    pages = Pages(LENGTHS, QUERIES, generator, *types)
    assert relative(ops.paged_attention(pages.q, pages.cache, pages.group, 0.2), pages.expected(0.2)) < 5e-2
    pages = Pages([3], [1], generator, *types)
    group = GroupBatch(pages.tables[0, :1].long() * 4, pages.tables, torch.tensor([1]), torch.tensor([0, 1]))
    ops.store_kv(torch.full((1, 2, 32), -1e5), torch.full((1, 2, 32), 1e5), pages.cache, group)
    last = ops.paged_attention(pages.q, pages.cache, GroupBatch(group.slot_mapping, pages.tables, torch.tensor([1]),
                                                                torch.tensor([0, 1])), 0.2)  # fmt: skip
    assert torch.equal(last, torch.full_like(last, 1e5 if kind == "keys" else 448.0))  # larger numbers are cut off


@checks("store_kv", "paged_attention")
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize(
    "case", ["plain", "window", "sinks", "softcap", "bias", "bidirectional", "sink_tokens", "no_window", "all"]
)
def test_paged_attention_options(case: str, kv_heads: int, generator: torch.Generator) -> None:
    options: dict[str, dict[str, object]] = {
        "plain": {},
        "window": dict(window=5),
        "sinks": dict(sinks=torch.randn(4, generator=generator)),
        "softcap": dict(softcap=2.0),
        "bias": dict(bias=torch.randn(4, 30, 30, generator=generator)),
        "bidirectional": dict(causal=False),
        "sink_tokens": dict(window=5, sink_tokens=3),
        "no_window": dict(sink_tokens=3),
    }
    options["all"] = options["sink_tokens"] | options["sinks"] | options["softcap"] | options["bias"]
    chosen = options[case]
    pages = Pages(LENGTHS, QUERIES, generator, kv_heads=kv_heads, window=chosen.get("window"))  # type: ignore[arg-type]
    got = ops.paged_attention(pages.q, pages.cache, pages.group, 0.3, **chosen)  # type: ignore[arg-type]
    assert relative(got, pages.expected(0.3, **chosen)) < TOLERANCE  # type: ignore[arg-type]


def test_window_never_reads_freed_blocks(generator: torch.Generator) -> None:
    """Table entries of blocks that left the window may point anywhere, even at NaN."""
    pages = Pages([30], [1], generator, window=5)
    expected = pages.expected(0.3, window=5)
    pages.group.block_tables[0, :6] = 0
    assert relative(ops.paged_attention(pages.q, pages.cache, pages.group, 0.3, window=5), expected) < TOLERANCE


@pytest.mark.parametrize("queries", [1, 3])
def test_sink_tokens_leave_only_the_blocks_between_freed(queries: int, generator: torch.Generator) -> None:
    pages = Pages([30], [queries], generator, window=5)
    expected = pages.expected(0.3, window=5, sink_tokens=6)
    pages.group.block_tables[0, 2:5] = 0  # tokens 8 to 19
    got = ops.paged_attention(pages.q, pages.cache, pages.group, 0.3, window=5, sink_tokens=6)
    assert relative(got, expected) < TOLERANCE


def test_attention_over_many_blocks(generator: torch.Generator) -> None:
    """Sequences longer than what any backend takes at once, with a window that begins far behind the first tokens."""
    pages = Pages([1100, 600], [3, 1], generator)
    assert relative(ops.paged_attention(pages.q, pages.cache, pages.group, 0.3), pages.expected(0.3)) < TOLERANCE
    options = dict(window=300, sink_tokens=5)
    got = ops.paged_attention(pages.q, pages.cache, pages.group, 0.3, **options)  # type: ignore[arg-type]
    assert relative(got, pages.expected(0.3, **options)) < TOLERANCE  # type: ignore[arg-type]


def test_balanced_keys_lose_less(generator: torch.Generator) -> None:
    """Keys with a few large channels: divided by a balance, the small ones keep their bits."""
    pages = Pages([13, 7], [3, 1], generator, torch.int8, torch.float32)
    size = torch.ones(2, 32)
    size[:, ::7] = 128.0
    pages.keys = [keys * size for keys in pages.keys]
    pages.q = pages.q / size.repeat_interleave(2, dim=0)
    errors = []
    for balance in (None, size):
        cache = LayerCache(pages.cache.arena, pages.cache.layout, 1, balance)
        for row, keys in enumerate(pages.keys):
            entries = pages.tables[row].long()[torch.arange(len(keys)) // 4]
            slots = entries * 4 + torch.arange(len(keys)) % 4
            group = GroupBatch(slots, pages.tables, torch.tensor([13, 7]), torch.tensor([0, len(keys)]))
            ops.store_kv(keys, pages.values[row], cache, group)
        errors.append(relative(ops.paged_attention(pages.q, cache, pages.group, 0.3), pages.expected(0.3)))
    assert errors[1] < PAGE_TOLERANCE[torch.int8]
    assert errors[1] < 0.1 * errors[0]


def test_store_skips_negative_slots(generator: torch.Generator) -> None:
    pages = Pages([8], [1], generator)
    before = pages.cache.arena.clone()
    group = GroupBatch(torch.tensor([-1, -1]), pages.tables, torch.tensor([8]), torch.tensor([0, 2]))
    ops.store_kv(torch.ones(2, 2, 32), torch.ones(2, 2, 32), pages.cache, group)
    assert torch.equal(pages.cache.arena, before)


@checks("paged_attention", "paged_attention_weights", "store_kv")
@pytest.mark.parametrize("options", [{}, {"window": 5, "sink_tokens": 3}, {"sinks": torch.ones(4)}, {"causal": False}])
@pytest.mark.parametrize("queries", [[1, 1, 1, 1], [1, 3, 12, 2]])
def test_rows_of_a_whole_table_and_padding(
    queries: list[int], options: dict[str, object], generator: torch.Generator
) -> None:
    """Requests 1 and 3 are padding: they get zeros and store nothing, whatever their row of the table holds."""
    pages = Pages([9, 6, 30, 4], queries, generator, window=options.get("window"))  # type: ignore[arg-type]
    plain = ops.paged_attention(pages.q, pages.cache, pages.group, 0.3, **options)  # type: ignore[arg-type]
    table = torch.full((7, 20), 0, dtype=torch.int32)
    rows = torch.tensor([5, 0, 2, 0], dtype=torch.int32)
    for request in (0, 2):
        table[rows[request], :8] = pages.tables[request]
    lengths = torch.tensor([9, 0, 30, 0], dtype=torch.int32)
    slots = torch.full((sum(queries),), -1, dtype=torch.int64)
    group = GroupBatch(slots, table, lengths, pages.group.query_start, rows)
    before = pages.cache.arena.clone()
    got = ops.paged_attention(pages.q, pages.cache, group, 0.3, **options)  # type: ignore[arg-type]
    new = torch.ones(len(slots), 2, 32)
    ops.store_kv(new, new, pages.cache, group)
    assert torch.equal(pages.cache.arena, before)
    starts = pages.group.query_start.tolist()
    for request in range(4):
        own = slice(starts[request], starts[request + 1])
        assert torch.equal(got[own], plain[own] if request in (0, 2) else torch.zeros_like(plain[own]))
    weights = ops.paged_attention_weights(pages.q, pages.cache, group, 0.3, heads=[2])
    assert not weights[:, starts[1] : starts[2]].any() and not weights[:, starts[3] :].any()
    own = slice(starts[2], starts[3])
    expected = ops.paged_attention_weights(pages.q, pages.cache, pages.group, 0.3, heads=[2])
    assert torch.equal(weights[:, own, :30], expected[:, own, :30])
    assert not weights[:, own, 30:].any()


def test_store_touches_only_its_layer(generator: torch.Generator) -> None:
    """Layers 0 and 2 of the group stay as they were: all 0xFF."""
    pages = Pages([8], [1], generator, torch.int8, torch.int8)
    layout = pages.cache.layout
    for entry in pages.tables[0].tolist():
        block = pages.cache.arena[entry * OFFSET_UNIT :][: layout.block_bytes]
        layers = block[: 3 * layout.layer_bytes].view(3, -1)
        assert bool((layers[0] == 0xFF).all()) and bool((layers[2] == 0xFF).all())
        assert not bool((layers[1] == 0xFF).all())


@checks("paged_attention_weights")
def test_paged_attention_weights(generator: torch.Generator) -> None:
    pages = Pages([9, 6], [2, 1], generator, kv_heads=4)
    got = ops.paged_attention_weights(pages.q, pages.cache, pages.group, 0.3, heads=[3, 1])
    assert got.shape[:2] == (2, 3) and got.shape[2] >= 9
    row = 0
    for keys, q in zip(pages.keys, pages.q.split(pages.queries), strict=True):
        for i in range(len(q)):
            for index, head in enumerate((3, 1)):
                expected = (keys[:, head].double() @ q[i, head].double() * 0.3).softmax(-1)
                assert relative(got[index, row, : len(keys)], expected) < TOLERANCE
                assert not got[index, row, len(keys) :].any()
            row += 1


@checks("attention")
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, generator: torch.Generator) -> None:
    lengths = [3, 1, 11]
    fused = torch.randn(15, 8, 16, generator=generator)
    q, k, v = fused[:, :4], fused[:, 4:6], fused[:, 6:]
    bias = torch.randn(4, 11, 11, generator=generator)
    starts = torch.tensor([0, 3, 4, 15], dtype=torch.int32)
    got = ops.attention(q, k, v, starts, 0.25, causal, bias)
    pieces = []
    for qs, ks, vs in zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True):
        n = len(qs)
        for i in range(n):
            last = i + 1 if causal else n
            rows = []
            for head in range(4):
                logits = ks[:last, head // 2].double() @ qs[i, head].double() * 0.25 + bias[head, i, :last].double()
                rows.append(logits.softmax(-1) @ vs[:last, head // 2].double())
            pieces.append(torch.stack(rows))
    assert relative(got, torch.stack(pieces)) < TOLERANCE
