"""Products on random shapes against float64, and the uploading of weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from antiphon import ops
from antiphon.ops.triton.kernels.products.activations import NUMBERS
from antiphon.ops.triton.kernels.products.rows import row_product
from antiphon.ops.triton.kernels.products.vector import vector_product
from antiphon.ops.triton.product import linear
from antiphon.ops.triton.upload import UploadRing
from antiphon.ops.triton.weights import MATRIX, prepare_weights
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart
from support.kernels.triton_cases import error, normal, number, pick


def activated(y: Tensor, activation: str) -> Tensor:
    functions = {
        "none": lambda x: x,
        "relu": lambda x: x.clamp(min=0),
        "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "silu": lambda x: x * torch.sigmoid(x),
    }
    if not activation.endswith("_gate"):
        return functions[activation](y)
    gate, value = y.chunk(2, dim=-1)
    return functions[activation.removesuffix("_gate")](gate) * value


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 17])
def test_linear(tokens: int, generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    inputs, outputs = number(generator, 1, 300), 2 * number(generator, 1, 40)
    activation = pick(generator, ("none", "relu", "gelu", "gelu_tanh", "silu", "silu_gate", "gelu_tanh_gate"))
    matrix = (normal(generator, outputs, inputs) / inputs**0.5).to(half)
    x = normal(generator, tokens, inputs).to(half).to(device)
    bias = normal(generator, outputs).to(device) if number(generator, 0, 1) else None
    y = x.double() @ matrix.double().T.to(device) + (0 if bias is None else bias.double())
    expected = activated(y, activation)
    residual = normal(generator, *expected.shape).to(device) if number(generator, 0, 1) else None
    weight = Weight.from_tensor(matrix)
    wide = linear(x, weight, bias, activation, residual, torch.float32)
    plain = linear(x, weight, bias, activation)
    assert wide.dtype is torch.float32
    assert error(wide, expected if residual is None else expected + residual.double()) < 1e-5
    assert plain.dtype is half and error(plain, expected) < 6e-3


def test_residual_in_fp32_of_a_large_product(
    generator: torch.Generator, device: torch.device, half: torch.dtype
) -> None:
    matrix = normal(generator, 64, 128).to(half)
    x, residual = normal(generator, 80, 128).to(half).to(device), 1000 * normal(generator, 80, 64).to(device)
    with ops.use_backend("triton"):
        y = ops.linear(x, Weight.from_tensor(matrix), residual=residual)
    assert y.dtype is torch.float32
    assert error(y - residual, x.double() @ matrix.double().T.to(device)) < 1e-4


@pytest.mark.parametrize("loop", [0, 1, 2])
def test_vector_product_with_a_norm(
    loop: int, generator: torch.Generator, device: torch.device, half: torch.dtype
) -> None:
    rows, inputs, outputs = pick(generator, (1, 2, 4)), number(generator, 1, 300), number(generator, 1, 60)
    inputs = 64 * (1 + inputs // 64) if loop else inputs
    gated = bool(number(generator, 0, 1))
    x, gain = normal(generator, rows, inputs).to(device), normal(generator, inputs).to(device)
    matrix = (normal(generator, outputs * (1 + gated), inputs) / inputs**0.5).to(half).to(device)
    y = torch.empty(rows, outputs, device=device)
    vector_product[(-(-outputs // 4),)](
        x, gain, matrix, gain, gain, y, 1e-5, ROWS=rows, K=inputs, N=outputs, BN=4, BK=64, NORM=True, GATED=gated,
        ACTIVATION=NUMBERS["silu"], BIAS=False, RESIDUAL=False, LOOP=loop, PDL=False,
    )  # fmt: skip
    wide = x.double()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * gain.double()
    assert error(y, activated(wide @ matrix.double().T, "silu_gate" if gated else "silu")) < 1e-5


@pytest.mark.parametrize(("splits", "early"), [(1, False), (1, True), (2, True)])
def test_row_product(
    splits: int, early: bool, generator: torch.Generator, device: torch.device, half: torch.dtype
) -> None:
    rows, inputs, outputs, parts = 16, 128 * splits, 64, 3
    gated, biased, scaled = (bool(number(generator, 0, 1)) for _ in range(3))
    x = normal(generator, rows, inputs).to(half).to(device)
    squares = (torch.rand(parts, rows, generator=generator) * inputs).to(device)
    matrix = (normal(generator, outputs * (1 + gated), inputs) / inputs**0.5).to(half).to(device)
    bias, gain = normal(generator, len(matrix)).to(device), normal(generator, outputs).to(device)
    residual = normal(generator, rows, outputs).to(device)
    y, next_squares = torch.empty(rows, outputs, device=device), torch.empty(outputs // 32, rows, device=device)
    y_scaled = torch.empty(rows, outputs, dtype=half, device=device)
    partial = torch.empty(2 * splits * outputs * rows, device=device)
    counters = torch.zeros(outputs // 32, dtype=torch.int32, device=device)
    row_product[(outputs // 32, splits)](
        x, squares, matrix, bias, residual, gain, y, y_scaled, next_squares, partial, counters, 1e-5,
        K=inputs, N=outputs, NORM_PARTS=parts, ROWS=rows, BN=32, BK=64, SPLITS=splits, GATED=gated,
        ACTIVATION=NUMBERS["silu"], BIAS=biased, RESIDUAL=True, SCALED=scaled, EARLY=early, PDL=False,
    )  # fmt: skip
    wide = x.double() @ matrix.double().T * torch.rsqrt(squares.double().sum(0) / inputs + 1e-5)[:, None]
    wide = wide + bias.double() if biased else wide
    expected = activated(wide, "silu_gate" if gated else "silu") + residual.double()
    assert error(y, expected) < 1e-5
    assert not counters.any()
    if scaled:
        assert error(y_scaled, expected * gain.double()) < 6e-3
        assert error(next_squares.sum(0), expected.square().sum(1)) < 1e-5


def test_prepared_weights(generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    """A weight of parts in different types becomes one matrix; floats of the card's type keep their bits."""
    rng = np.random.default_rng(0)
    parts, dense = [], []
    for kind, rows in (("Q8_0", 5), ("F32", 3), ("Q4_K", 8), ("BF16", 2), ("F16", 4), ("IQ4_NL", 3)):
        type_ = GGMLQuantizationType[kind]
        if kind == "IQ4_NL":
            encoded = rng.integers(0, 100, (rows, 256 // 32 * 18), dtype=np.uint8)
            encoded.reshape(-1, 18)[:, :2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        elif kind == "Q4_K":
            encoded = rng.integers(0, 60, (rows, 144), dtype=np.uint8)
        else:
            encoded = quants.quantize(rng.standard_normal((rows, 256)).astype(np.float32), type_)
        dense.append(torch.from_numpy(quants.dequantize(encoded, type_).reshape(rows, 256)))
        data = torch.from_numpy(encoded.view(np.uint8).reshape(rows, -1).copy())
        parts.append(WeightPart(TensorType[kind], rows, data))
    weight, released = Weight(tuple(parts), 256), []
    forms = prepare_weights([weight, weight], release_pages=lambda: released.append(1), device=device, dtype=half)
    assert torch.equal(weight.packed[MATRIX].cpu(), torch.cat(dense).to(half))
    assert weight.packed[MATRIX].device == device and not weight.parts and released
    assert [form.resident_bytes for form in forms] == [part.rows * 512 for part in parts]
    assert weight.resident_bytes == 25 * 512


def test_uploads_larger_than_the_ring(device: torch.device) -> None:
    source = torch.randint(256, (5000,), dtype=torch.uint8)
    first, second = torch.zeros(2, 5000, dtype=torch.uint8, device=device)
    with UploadRing(device, buffers=2, buffer_bytes=64) as ring:
        ring.copy(source, first)
        ring.copy(source.flip(0), second)
        ring.wait()
    assert torch.equal(first.cpu(), source) and torch.equal(second.cpu(), source.flip(0))
    with UploadRing(device) as ring, pytest.raises(ValueError, match="5000 bytes do not fill 4999"):
        ring.copy(source, first[1:])
