"""One suite that every backend passes: each operation against an independent float64 computation on random input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from antiphon import ops
from antiphon.ops import (
    CacheGroup,
    CacheKind,
    CacheLayout,
    GroupBatch,
    LayerCache,
    LSTMWeights,
    RotaryTable,
    SamplingRows,
)
from antiphon.ops.cache import OFFSET_UNIT
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

TOLERANCE = 2e-5


@pytest.fixture(params=ops.available_backends(), autouse=True)
def backend(request: pytest.FixtureRequest):
    with ops.use_backend(request.param):
        yield request.param


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(17)


def relative(value: Tensor, expected: Tensor) -> float:
    """‖value − expected‖ / ‖expected‖ in float64; NaN never passes a comparison."""
    return ((value.double() - expected).norm() / expected.norm()).item()


def mixed_weight(columns: int, seed: int) -> tuple[Weight, Tensor]:
    """A weight whose parts have different types, as a fused product of a real file has, and its float64 matrix."""
    rng = np.random.default_rng(seed)
    parts, dense = [], []
    kinds = (("Q8_0", 5), ("F32", 3), ("Q4_0", 8), ("BF16", 2), ("Q5_1", 6), ("F16", 4))
    for kind, rows in kinds:
        values = rng.standard_normal((rows, columns)).astype(np.float32)
        encoded = quants.quantize(values, GGMLQuantizationType[kind])
        dense.append(torch.from_numpy(quants.dequantize(encoded, GGMLQuantizationType[kind])).double())
        data = torch.from_numpy(encoded.view(np.uint8).reshape(rows, -1).copy())
        parts.append(WeightPart(TensorType[kind], rows, data))
    return Weight(tuple(parts), columns), torch.cat(dense)


def test_embed() -> None:
    weight, dense = mixed_weight(64, 1)
    ids = torch.tensor([0, 27, 4, 5, 8, 16, 18, 24, 0], dtype=torch.int32)
    assert relative(ops.embed(ids, weight), dense[ids.long()]) < 1e-6
    assert relative(ops.embed(ids, weight, 3.5), dense[ids.long()] * 3.5) < 1e-6
    assert ops.embed(ids[:0], weight).shape == (0, 64)


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


ACTIVATIONS = {
    "none": lambda y: y,
    "relu": lambda y: y.clamp(min=0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "silu_gate": lambda y: silu(y[:, :14]) * y[:, 14:],
    "gelu_tanh_gate": lambda y: gelu_tanh(y[:, :14]) * y[:, 14:],
}


@pytest.mark.parametrize("tokens", [1, 2, 5, 33])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear(activation: str, tokens: int, generator: torch.Generator) -> None:
    weight, dense = mixed_weight(96, 2)
    x = torch.randn(tokens, 96, generator=generator)
    bias = torch.randn(28, generator=generator)
    expected = ACTIVATIONS[activation](x.double() @ dense.T + bias.double())
    residual = torch.randn(expected.shape, generator=generator)
    got = ops.linear(x, weight, bias, activation, residual)
    assert relative(got, expected + residual.double()) < TOLERANCE
    if activation == "none":
        assert relative(ops.linear(x, weight), x.double() @ dense.T) < TOLERANCE


def test_linear_of_no_rows() -> None:
    weight, _ = mixed_weight(96, 2)
    assert ops.linear(torch.empty(0, 96), weight).shape == (0, 28)


@pytest.mark.parametrize("shape", [(7, 40), (3, 5, 16)])
def test_norms(shape: tuple[int, ...], generator: torch.Generator) -> None:
    x, residual = torch.randn(2, *shape, generator=generator)
    w, b = torch.randn(2, shape[-1], generator=generator)
    total = (x + residual).double()
    rms = total / (total.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w.double()
    centred = total - total.mean(-1, keepdim=True)
    layer = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w.double() + b.double()
    for got, expected in ((ops.rms_norm(x, w, 1e-5, residual), rms), (ops.layer_norm(x, w, b, 1e-5, residual), layer)):
        assert relative(got[0], expected) < TOLERANCE
        assert torch.equal(got[1], x + residual)
    y, kept = ops.rms_norm(x, w, 1e-5)
    assert relative(y, x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt() * w.double()) < TOLERANCE
    assert torch.equal(kept, x)


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate channel pairs (j, j + half) as complex numbers. x [T, heads, D], angles [T, half]."""
    half = angles.shape[-1]
    z = torch.complex(x[..., :half].double(), x[..., half : 2 * half].double())
    z = z * torch.polar(torch.ones_like(angles.double()), angles.double())[:, None, :]
    return torch.cat([z.real, z.imag, x[..., 2 * half :].double()], dim=-1)


@pytest.mark.parametrize("rotated", [16, 8])
def test_rotary(rotated: int, generator: torch.Generator) -> None:
    inverse = 1.0 / 100.0 ** (torch.arange(0, rotated, 2).double() / rotated)
    angles = torch.arange(50)[:, None] * inverse
    axis = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])[: rotated // 2]
    table = RotaryTable(torch.cat([angles.cos(), angles.sin()], -1).float(), axis)
    fused = torch.randn(6, 5, 16, generator=generator)  # q and k are views of one product
    q, k = fused[:, :3], fused[:, 3:]
    positions = torch.tensor([0, 49, 3, 3, 17, 8], dtype=torch.int32)
    got = ops.rotary(q, k, positions, table)
    for value, x in zip(got, (q, k), strict=True):
        assert relative(value, turn(x, angles[positions.long()])) < TOLERANCE
    several = torch.stack([positions, positions.flip(0), torch.arange(6, dtype=torch.int32)])
    mixed = torch.stack([angles[several[a].long(), j] for j, a in enumerate(axis.tolist())], dim=-1)
    got = ops.rotary(q, k, several, table)
    for value, x in zip(got, (q, k), strict=True):
        assert relative(value, turn(x, mixed)) < TOLERANCE


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


def test_store_touches_only_its_layer(generator: torch.Generator) -> None:
    """Layers 0 and 2 of the group stay as they were: all 0xFF."""
    pages = Pages([8], [1], generator, torch.int8, torch.int8)
    layout = pages.cache.layout
    for entry in pages.tables[0].tolist():
        block = pages.cache.arena[entry * OFFSET_UNIT :][: layout.block_bytes]
        layers = block[: 3 * layout.layer_bytes].view(3, -1)
        assert bool((layers[0] == 0xFF).all()) and bool((layers[2] == 0xFF).all())
        assert not bool((layers[1] == 0xFF).all())


def test_paged_attention_weights(generator: torch.Generator) -> None:
    pages = Pages([9, 6], [2, 1], generator, kv_heads=4)
    got = ops.paged_attention_weights(pages.q, pages.cache, pages.group, 0.3, heads=[3, 1])
    assert got.shape == (2, 3, 9)
    row = 0
    for keys, q in zip(pages.keys, pages.q.split(pages.queries), strict=True):
        for i in range(len(q)):
            for index, head in enumerate((3, 1)):
                expected = (keys[:, head].double() @ q[i, head].double() * 0.3).softmax(-1)
                assert relative(got[index, row, : len(keys)], expected) < TOLERANCE
                assert not got[index, row, len(keys) :].any()
            row += 1


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


def naive_conv(x: Tensor, w: Tensor, b: Tensor, stride: int, dilation: int, groups: int) -> Tensor:
    """[B, T, C] channel by channel, tap by tap."""
    batch, frames, _ = x.shape
    outputs, per_group, kernel = w.shape
    length = (frames - (kernel - 1) * dilation - 1) // stride + 1
    out = b.double().repeat(batch, length, 1)
    for o in range(outputs):
        group = o // (outputs // groups)
        for c in range(per_group):
            for tap in range(kernel):
                start = tap * dilation
                taps = x[:, start : start + (length - 1) * stride + 1 : stride, group * per_group + c].double()
                out[:, :, o] += w[o, c, tap].double() * taps
    return out


@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (1, 3, 2), (3, 2, 6)])
def test_conv1d(stride: int, dilation: int, groups: int, generator: torch.Generator) -> None:
    x = torch.randn(2, 30, 6, generator=generator)
    w, b = torch.randn(12, 6 // groups, 4, generator=generator), torch.randn(12, generator=generator)
    got = ops.conv1d(x, w, b, stride, (2, 1), dilation, groups, "gelu")
    padded = torch.nn.functional.pad(x, (0, 0, 2, 1))
    assert got.is_contiguous()
    assert relative(got, gelu(naive_conv(padded, w, b, stride, dilation, groups))) < TOLERANCE


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (1, 2), (2, 1)])
def test_conv1d_state_leaves_no_seam(stride: int, dilation: int, generator: torch.Generator) -> None:
    x = torch.randn(2, 24, 3, generator=generator)
    w, b = torch.randn(5, 3, 4, generator=generator), torch.randn(5, generator=generator)
    left = 3 * dilation + 1 - stride
    whole = ops.conv1d(x, w, b, stride, (left, 0), dilation)
    state = torch.zeros(2, left, 3)
    sizes = (2, 4, 10, 8)
    chunks = [ops.conv1d(part, w, b, stride, (0, 0), dilation, state=state) for part in x.split(sizes, dim=1)]
    torch.testing.assert_close(torch.cat(chunks, 1), whole, atol=1e-5, rtol=1e-5)


def test_conv_transpose1d(generator: torch.Generator) -> None:
    x = torch.randn(2, 9, 4, generator=generator)
    w, b = torch.randn(4, 6, 5, generator=generator), torch.randn(6, generator=generator)
    expected = torch.zeros(2, 8 * 2 + 5, 6, dtype=torch.float64)
    for t in range(9):
        for tap in range(5):
            expected[:, 2 * t + tap] += x[:, t].double() @ w[:, :, tap].double()
    got = ops.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1)
    full = torch.cat([expected, torch.zeros(2, 1, 6)], dim=1) + b.double()
    assert relative(got, full[:, 1:-1]) < TOLERANCE
    state = torch.zeros(2, 3, 6)
    chunks = [ops.conv_transpose1d(part, w, b, stride=2, state=state) for part in x.split((1, 2, 5, 1), dim=1)]
    assert relative(torch.cat(chunks, 1), expected[:, :18] + b.double()) < TOLERANCE


def lstm_weights(inputs: int, hidden: int, generator: torch.Generator) -> LSTMWeights:
    shapes = ((4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
    return LSTMWeights(*(torch.randn(shape, generator=generator) * 0.3 for shape in shapes))


def naive_lstm(x: Tensor, w: LSTMWeights, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    out = []
    for frame in x.double():
        gates = w.input.double() @ frame + w.hidden.double() @ h + (w.input_bias + w.hidden_bias).double()
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        out.append(h)
    return torch.stack(out), h, c


@pytest.mark.parametrize("hidden", [7, 24])
def test_lstm_ragged_bidirectional(hidden: int, generator: torch.Generator) -> None:
    forward, backward = lstm_weights(5, hidden, generator), lstm_weights(5, hidden, generator)
    x, lengths = torch.randn(3, 10, 5, generator=generator), torch.tensor([4, 10, 1])
    got = ops.lstm(x, lengths, forward, backward)
    zeros = torch.zeros(hidden, dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        ahead = naive_lstm(x[row, :length], forward, zeros, zeros)[0]
        behind = naive_lstm(x[row, :length].flip(0), backward, zeros, zeros)[0].flip(0)
        assert relative(got[row, :length], torch.cat([ahead, behind], -1)) < TOLERANCE
        assert not got[row, length:].any()


@pytest.mark.parametrize("hidden", [7, 24])
def test_lstm_carries_its_state(hidden: int, generator: torch.Generator) -> None:
    weights, x = lstm_weights(5, hidden, generator), torch.randn(2, 9, 5, generator=generator)
    state = (torch.randn(1, 2, hidden, generator=generator), torch.randn(1, 2, hidden, generator=generator))
    start = [(state[0][0, row].double(), state[1][0, row].double()) for row in range(2)]
    chunks = x.split((1, 5, 3), dim=1)
    parts = [ops.lstm(part, torch.full((2,), part.shape[1]), weights, state=state) for part in chunks]
    for row in range(2):
        expected, h, c = naive_lstm(x[row], weights, *start[row])
        assert relative(torch.cat(parts, 1)[row], expected) < TOLERANCE
        assert relative(state[0][0, row], h) < TOLERANCE
        assert relative(state[1][0, row], c) < TOLERANCE


def test_small_operations(generator: torch.Generator) -> None:
    x, y = torch.randn(2, 6, 5, generator=generator)
    assert torch.equal(ops.add(x, y), x + y)
    assert torch.equal(ops.add(x, y[0]), x + y[0])
    assert torch.equal(ops.gather_rows(x, torch.tensor([5, 0, 0])), x[[5, 0, 0]])
    wide = torch.randn(3, 4, 6, generator=generator)
    assert relative(ops.activate(wide, "sigmoid"), 1 / (1 + torch.exp(-wide.double()))) < 1e-6
    lengths = torch.view_as_complex(torch.stack(wide.double().chunk(2, dim=-1), dim=-1)).abs()
    assert relative(ops.activate(wide, "magnitude"), lengths) < 1e-6
    assert torch.equal(ops.activate(wide, "relu"), wide.clamp(min=0))
    means = ops.segment_mean(x, torch.tensor([0, 1, 4, 6], dtype=torch.int32))
    expected = torch.stack([part.double().mean(0) for part in x.split((1, 3, 2))])
    assert relative(means, expected) < 1e-6
    assert relative(ops.l2_normalize(x), x.double() / x.double().norm(dim=-1, keepdim=True)) < 1e-6


def rows(count: int, **changes: object) -> SamplingRows:
    base: dict[str, object] = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, index=0)
    dtypes = dict(
        temperature=torch.float32, top_k=torch.int32, top_p=torch.float32, min_p=torch.float32, seed=torch.int64,
        index=torch.int64,
    )  # fmt: skip
    values = base | changes
    fields = {name: torch.as_tensor(value, dtype=dtypes[name]).expand(count).clone() for name, value in values.items()}
    return SamplingRows(**fields)


def test_sample_greedy_and_logprobs(generator: torch.Generator) -> None:
    logits = torch.randn(5, 300, generator=generator) * 3
    tokens, logprobs = ops.sample(logits, rows(5, temperature=0.0))
    assert torch.equal(tokens, logits.argmax(-1))
    expected = logits.double().log_softmax(-1)[torch.arange(5), tokens]
    assert relative(logprobs, expected) < TOLERANCE


def test_sample_does_not_depend_on_the_batch(generator: torch.Generator) -> None:
    logits = torch.randn(8, 500, generator=generator)
    seeds, index = torch.arange(8) * 2**33 + 5, torch.arange(8) * 3
    settings = dict(temperature=torch.linspace(0, 2, 8), top_k=torch.arange(8) * 7, top_p=torch.linspace(0.5, 1, 8))
    together, _ = ops.sample(logits, rows(8, seed=seeds, index=index, **settings))
    for row in range(8):
        own = {name: value[row] for name, value in settings.items()}
        alone, _ = ops.sample(logits[row : row + 1], rows(1, seed=seeds[row], index=index[row], **own))
        assert alone[0] == together[row]


@pytest.mark.parametrize("settings", [{}, dict(top_k=4), dict(top_p=0.7), dict(min_p=0.2), dict(temperature=0.5)])
def test_sample_follows_the_distribution(settings: dict[str, float], generator: torch.Generator) -> None:
    """20,000 draws with different seeds against the exact probabilities: chi-squared under its 99.9 % bound."""
    draws = 20_000
    logits = torch.randn(12, generator=generator) * 1.5
    p = (logits.double() / settings.get("temperature", 1.0)).softmax(-1)
    order = p.argsort(descending=True)
    keep = torch.ones(12, dtype=torch.bool)
    if "top_k" in settings:
        keep[order[int(settings["top_k"]) :]] = False
    if "top_p" in settings:
        before = p[order].cumsum(0) - p[order]
        keep[order[before >= settings["top_p"]]] = False
    if "min_p" in settings:
        keep &= p >= settings["min_p"] * p.max()
    p = torch.where(keep, p, 0.0)
    p /= p.sum()
    tokens, _ = ops.sample(logits.expand(draws, -1), rows(draws, seed=torch.arange(draws), **settings))
    counts = torch.bincount(tokens, minlength=12).double()
    assert not counts[~keep].any()
    expected = p[keep] * draws
    chi_squared = ((counts[keep] - expected) ** 2 / expected).sum().item()
    assert chi_squared < 33  # 11 degrees of freedom, p = 0.0005
