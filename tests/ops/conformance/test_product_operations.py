"""Products with weights and their rows, against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from antiphon import ops
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart
from support.kernels.conformance import TOLERANCE, checks, relative


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


@checks("embed")
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


@checks("linear")
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


def adapter_table(columns: int, rank: int, seed: int) -> tuple[ops.AdapterTable, dict[int, Tensor]]:
    """Adapters of a product of 28 rows in slots 1 and 3, with the float64 matrix that each comes to."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, width: int, dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(rng.standard_normal((rows, width)).astype(np.float32)).to(dtype)

    table, deltas = ops.AdapterTable(28), {}
    for slot, dtype, spans in ((1, torch.float32, [(0, 28)]), (3, torch.bfloat16, [(2, 9), (14, 28)])):
        downs, ups, delta = [], [], torch.zeros(28, columns, dtype=torch.float64)
        for index, (first, last) in enumerate(spans):
            down, up = matrix(rank, columns, dtype), matrix(last - first, rank, dtype)
            downs.append(Weight.from_tensor(down))
            ups.append(ops.AdapterUp((0.75 * up.float()).T.contiguous(), first, index * rank))
            delta[first:last] = 0.75 * (up.double() @ down.double())
        table.set(slot, ops.LayerAdapter(Weight.concatenate(downs), tuple(ups)))
        deltas[slot] = delta
    return table, deltas


@checks("adapted_linear")
@pytest.mark.parametrize("rank", [1, 8, 40])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_adapted_linear(activation: str, rank: int, generator: torch.Generator) -> None:
    weight, dense = mixed_weight(96, 2)
    table, deltas = adapter_table(96, rank, 3)
    slots = torch.tensor([-1, 3, 1, 1, -1, 2, 3, 99], dtype=torch.int32)  # there is no adapter in 2 and 99
    x = torch.randn(len(slots), 96, generator=generator)
    bias = torch.randn(28, generator=generator)
    products = [x[t].double() @ (dense + deltas.get(int(slot), 0)).T for t, slot in enumerate(slots)]
    expected = ACTIVATIONS[activation](torch.stack(products) + bias.double())
    residual = torch.randn(expected.shape, generator=generator)
    got = ops.adapted_linear(x, weight, table, slots, bias, activation, residual)
    assert relative(got, expected + residual.double()) < TOLERANCE
    plain = ops.linear(x, weight, bias, activation, residual)
    alone = torch.isin(slots, torch.tensor([1, 3]), invert=True)
    assert torch.equal(got[alone], plain[alone])


@checks("adapted_linear")
def test_adapters_change_between_calls(generator: torch.Generator) -> None:
    weight, dense = mixed_weight(96, 2)
    table, deltas = adapter_table(96, 4, 5)
    x, slots = torch.randn(3, 96, generator=generator), torch.tensor([1, -1, 3], dtype=torch.int32)
    ops.adapted_linear(x, weight, table, slots)
    table.clear(1)
    table.set(3, adapter_table(96, 4, 5)[0].layers[1])
    got = ops.adapted_linear(x, weight, table, slots)
    assert relative(got[2:], x[2:].double() @ (dense + deltas[1]).T) < TOLERANCE
    assert torch.equal(got[:2], ops.linear(x, weight)[:2])
