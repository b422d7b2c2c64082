"""Operations of batch-invariant mode: a row's result has the same bits in any company, and is close to float64's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.ops import Activation, AdapterTable, AdapterUp, GroupBatch, LayerAdapter
from antiphon.ops.backend import use_operations
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart
from support.kernels.triton_cases import Scattered, error, expected_attention, normal, scatter

#: Rows of a batch; the interpreter takes long for the last.
COUNTS = (1, 7, 32, 256) if torch.cuda.is_available() else (1, 7, 32, 70)


@pytest.fixture(autouse=True)
def invariant() -> Iterator[None]:
    with use_operations(ops.invariant_backend("triton")):
        yield


def matrix(generator: torch.Generator, rows: int, columns: int, half: torch.dtype, device: torch.device) -> Weight:
    values = normal(generator, rows, columns).to(half)
    types = {torch.bfloat16: TensorType.BF16, torch.float16: TensorType.F16, torch.float32: TensorType.F32}
    part = WeightPart(types[half], rows, values.view(torch.uint8))
    weight = Weight((part,), columns)
    weight.packed["triton"] = values.to(device)
    return weight


@pytest.mark.parametrize(
    ("inputs", "outputs", "activation", "biased", "added"),
    [(200, 80, "none", True, True), (320, 96, "silu_gate", False, False), (64, 48, "gelu", True, False)],
)
@pytest.mark.parametrize("wide", [False, True])
def test_products(
    inputs: int, outputs: int, activation: Activation, biased: bool, added: bool, wide: bool, half: torch.dtype,
    device: torch.device,
) -> None:  # fmt: skip
    """Every number of rows, and every index among them."""
    generator = torch.Generator().manual_seed(inputs)
    dtype = torch.float32 if wide else half
    weight = matrix(generator, outputs, inputs, dtype, device)
    width = outputs // 2 if activation.endswith("_gate") else outputs
    most = COUNTS[-1]
    x = normal(generator, most, inputs).to(dtype).to(device)
    bias = normal(generator, outputs).to(device) if biased else None
    residual = normal(generator, most, width).to(device) if added else None

    def product(first: int, count: int) -> Tensor:
        kept = None if residual is None else residual[first : first + count]
        return ops.linear(x[first : first + count], weight, bias, activation, kept)

    whole = product(0, most)
    for count in COUNTS[:-1]:
        for first in (0, most - count):
            assert torch.equal(product(first, count), whole[first : first + count]), (count, first)
    with ops.use_backend("reference"):
        values = weight.packed["triton"].cpu().float()
        plain = Weight((WeightPart(TensorType.F32, outputs, values.view(torch.uint8)),), inputs)
        kept = None if residual is None else residual.cpu()
        expected = ops.linear(x.cpu().float(), plain, None if bias is None else bias.cpu(), activation, kept)
    assert error(whole, expected) < (1e-5 if wide else 1e-2 if added else 5e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the interpreter takes hours")
@pytest.mark.parametrize(("inputs", "outputs"), [(1024, 4096), (3072, 1024), (4096, 24576), (1024, 151936)])
def test_products_of_real_shapes(inputs: int, outputs: int, half: torch.dtype, device: torch.device) -> None:
    """Every tile that rows and columns can get."""
    generator = torch.Generator().manual_seed(inputs)
    weight = matrix(generator, outputs, inputs, half, device)
    x = normal(generator, 2048, inputs).to(half).to(device)
    for activation in ("none", "silu_gate"):
        whole = ops.linear(x, weight, None, activation)  # type: ignore[arg-type]
        for count in (1, 7, 16, 17, 32, 33, 256, 1000):
            for first in (0, 5, 2048 - count):
                part = ops.linear(x[first : first + count], weight, None, activation)  # type: ignore[arg-type]
                assert torch.equal(part, whole[first : first + count]), (activation, count, first)


def test_quantised_weights(half: torch.dtype, device: torch.device) -> None:
    """They are expanded for any number of rows."""
    from antiphon.ops.triton.quantised.prepare import prepare_quantised

    generator = torch.Generator().manual_seed(5)
    values = normal(generator, 32, 64)
    part = WeightPart(TensorType.F32, 32, values.view(torch.uint8))
    for target in (TensorType.Q8_0, TensorType.F8_E4M3):
        weight = Weight((part,), 64)
        weight.packed["triton"] = prepare_quantised(Weight((part,), 64), device, target)
        x = normal(generator, 33, 64).to(half).to(device)
        whole = ops.linear(x, weight, dtype=torch.float32)
        for count in (1, 7):
            assert torch.equal(ops.linear(x[:count], weight, dtype=torch.float32), whole[:count]), (target, count)
        assert error(whole, x.cpu().double() @ values.double().T) < (0.01 if target is TensorType.Q8_0 else 0.05)


def test_adapters(half: torch.dtype, device: torch.device) -> None:
    """A token without an adapter has the bits of a step without adapters, one with it those of any other step."""
    generator = torch.Generator().manual_seed(6)
    weight, down = matrix(generator, 96, 64, half, device), matrix(generator, 8, 64, half, device)
    table = AdapterTable(96)
    table.set(0, LayerAdapter(down, (AdapterUp(normal(generator, 8, 40), 16, 0),)))
    x = normal(generator, 33, 64).to(half).to(device)
    slots = torch.arange(33, device=device, dtype=torch.int32) % 2 - 1  # -1 and 0 in turn
    whole = ops.adapted_linear(x, weight, table, slots, activation="silu_gate")
    assert torch.equal(whole[::2], ops.linear(x, weight, activation="silu_gate")[::2])
    assert not torch.equal(whole[1::2], ops.linear(x, weight, activation="silu_gate")[1::2])
    alone = [ops.adapted_linear(x[row : row + 1], weight, table, slots[row : row + 1], activation="silu_gate")
             for row in (0, 1, 32)]  # fmt: skip
    assert all(torch.equal(one[0], whole[row]) for one, row in zip(alone, (0, 1, 32), strict=True))


def test_norms(half: torch.dtype, device: torch.device) -> None:
    """From 1,024 rows on, which the interpreter takes long for, a program of the usual mode does several."""
    generator = torch.Generator().manual_seed(7)
    most = 1040 if device.type == "cuda" else 12
    x, gain = normal(generator, most, 48).to(device), normal(generator, 48).to(device)
    for norm in (
        lambda rows: ops.rms_norm(rows, gain, 1e-6, dtype=half)[0],
        lambda rows: ops.layer_norm(rows, gain, gain, 1e-6, dtype=half)[0],
    ):
        whole = norm(x)
        assert torch.equal(norm(x[5:6]), whole[5:6]) and torch.equal(norm(x[-7:]), whole[-7:])


def attend(q: Tensor, pages: Scattered, lengths: list[int], counts: list[int], **options: object) -> Tensor:
    return ops.paged_attention(q, pages.cache, pages.group(lengths, counts), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("page_type", "options"),
    [
        pytest.param(None, {}, id="plain"),
        pytest.param(None, {"window": 40, "sink_tokens": 3}, id="window"),
        pytest.param(None, {"softcap": 5.0, "window": 100}, id="softcap"),
        pytest.param(torch.int8, {}, id="int8", marks=pytest.mark.soak),
    ],
)
def test_attention(
    page_type: torch.dtype | None, options: dict[str, object], half: torch.dtype, device: torch.device
) -> None:
    """A query alone with a long context, whose parts programs share, in a chunk, and beside other requests."""
    generator = torch.Generator().manual_seed(8)
    lengths, channels, count, first = [560, 70, 1], 32, 40, 520
    kind = page_type or half
    pages = scatter(lengths, 1, channels, kind, kind, generator, device)
    options = {"scale": channels**-0.5, **options}
    q = normal(generator, count, 2, channels).to(half).to(device)

    def alone(begin: int, end: int) -> Tensor:
        """The queries of the first request at these positions, when it had `end` tokens."""
        starts = torch.tensor([0, end - begin], dtype=torch.int32, device=device)
        length = torch.tensor([end], dtype=torch.int32, device=device)
        group = GroupBatch(starts, pages.tables, length, starts, rows=pages.rows[:1])
        return ops.paged_attention(q[begin - first : end - first], pages.cache, group, **options)  # type: ignore[arg-type]

    whole = alone(520, 560)
    assert error(whole, expected_attention(q, pages, [560], [count], **options)) < 1e-2
    cut = torch.cat([alone(520, 521), alone(521, 528), alone(528, 559), alone(559, 560)])
    assert torch.equal(cut, whole)
    beside = attend(torch.cat([q[-7:], q[:12]]), pages, lengths, [7, 11, 1], **options)
    assert torch.equal(beside[:7], whole[-7:])
    decodes = attend(torch.cat([q[-1:], q[:2]]), pages, lengths, [1, 1, 1], **options)
    assert torch.equal(decodes[0], whole[-1])
