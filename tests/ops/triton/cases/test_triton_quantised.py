"""Products with quantised weights by Triton's kernels, under its interpreter, against decoded weights in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart
from support.kernels.random_blocks import FACTORS, decoded, random_part

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="test_triton_quantised_steps.py has a card's cases")

#: Types that between them have every kind of code and scale.
KINDS = (TensorType.Q8_0, TensorType.Q4_K, TensorType.Q6_K)
TYPES = pytest.mark.parametrize(
    "type", [pytest.param(type, marks=() if type in KINDS else pytest.mark.slow, id=type.name) for type in FACTORS]
)
ACTIVATIONS = {"none": lambda x: x, "silu": silu, "gelu_tanh": lambda x: gelu(x, approximate="tanh")}


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(14)


def expected(
    x: Tensor, weight: Weight, bias: Tensor | None = None, activation: str = "none", residual: Tensor | None = None
) -> Tensor:
    y = x.double() @ decoded(weight).T
    y = y if bias is None else y + bias
    function = ACTIVATIONS[activation.removesuffix("_gate")]
    if activation.endswith("_gate"):
        gate, value = y.chunk(2, dim=-1)
        y = function(gate) * value
    else:
        y = function(y)
    return y if residual is None else y + residual


def error(y: Tensor, exact: Tensor) -> float:
    return float((y.double() - exact).norm() / exact.norm())


@TYPES
@pytest.mark.parametrize("shape", [(16, 256), (11, 512), (5, 288)])
def test_repacking_loses_nothing(type: TensorType, shape: tuple[int, int], generator: torch.Generator) -> None:
    from antiphon.ops.triton.quantised.matrix import QuantisedMatrix
    from antiphon.ops.triton.quantised.workspace import ProductWorkspace

    rows, columns = shape
    if columns % type.block.elements:
        pytest.skip("not whole blocks")
    weight = Weight((random_part(type, rows, columns, generator),), columns)
    matrix = QuantisedMatrix.of(weight, "cpu")
    assert torch.equal(matrix.expanded(ProductWorkspace("cpu"), torch.float32).double(), decoded(weight))
    if shape == (16, 256):
        assert matrix.nbytes <= weight.nbytes * 37 / 36  # six-bit scales become bytes


@TYPES
def test_one_row(type: TensorType, generator: torch.Generator) -> None:
    from antiphon.ops.triton.launch import card
    from antiphon.ops.triton.normed import Normed
    from antiphon.ops.triton.quantised.activations import packed_words
    from antiphon.ops.triton.quantised.launches import Product, pack_launch, vector_launch
    from antiphon.ops.triton.quantised.repacking import BlockRows, repack
    from antiphon.ops.triton.quantised.tiles import BlockVectorTile

    part = random_part(type, 24, 768, generator)
    x, gain, bias, residual = (torch.randn(size, generator=generator) for size in ((1, 768), 768, 24, (1, 24)))

    def run(piece: BlockRows, product: Product, tile: BlockVectorTile) -> None:
        packed, on = torch.empty(packed_words(768), dtype=torch.int32), card(x.device)
        pack_launch(product, packed, on)()
        vector_launch(piece, 0, packed, product, on, tile)()

    y = torch.full((1, 24), torch.nan)
    product, tile = Product(x, y, 1, "none", bias, residual), BlockVectorTile(16, 16, 4)  # divides neither dimension
    run(repack(part.data, type, 768), product, tile)
    assert error(y, expected(x, Weight((part,), 768), bias, "none", residual)) < 1e-4
    if type not in KINDS:
        return
    y = torch.full((1, 8), torch.nan)
    part = WeightPart(type, 16, part.data[:16])
    product = Product(x, y, 1, "silu_gate", bias, norm=Normed(x, gain, 1e-5))
    run(repack(part.data, type, 768), product, BlockVectorTile(8, 32, 4))
    normal = x.double() * torch.rsqrt(x.double().square().mean() + 1e-5) * gain
    assert error(y, expected(normal, Weight((part,), 768), bias[:16], "silu_gate")) < 2e-4


@TYPES
def test_several_rows(type: TensorType, generator: torch.Generator) -> None:
    from functools import partial

    from antiphon.ops.triton.launch import card, counters, empty
    from antiphon.ops.triton.quantised.launches import Product, row_launch
    from antiphon.ops.triton.quantised.repacking import repack
    from antiphon.ops.triton.quantised.tiles import BlockRowTile

    part = random_part(type, 24, 512, generator)
    x, bias = torch.randn(5, 512, generator=generator).half(), torch.randn(24, generator=generator)
    wide, residual = torch.full((5, 64), torch.nan), torch.randn(5, 64, generator=generator)
    tile = BlockRowTile(32, 8, 2 if type in KINDS else 1, 4)
    shared = counters(x.device, 1), partial(empty, x.device), card(x.device), tile
    product = Product(x, wide[:, 8:], 5, "gelu_tanh", bias, residual[:, 8:])
    row_launch(repack(part.data, type, 512), 0, 0, product, *shared)()
    exact = expected(x, Weight((part,), 512), bias, "gelu_tanh", residual[:, 8:32])
    assert error(wide[:, 8:32], exact) < 2e-3
    assert wide[:, :8].isnan().all() and wide[:, 32:].isnan().all()
    if type not in KINDS:
        return
    gated = WeightPart(type, 16, part.data[:16])
    y = torch.full((5, 8), torch.nan)
    row_launch(repack(gated.data, type, 512), 0, 0, Product(x, y, 5, "silu_gate"), *shared)()
    assert error(y, expected(x, Weight((gated,), 512), None, "silu_gate")) < 4e-3
    assert not counters(x.device, 1).any()  # zero between products


@pytest.mark.parametrize(("rows", "activation"), [(1, "silu_gate"), (3, "none"), (70, "silu_gate")])
def test_parts_of_several_types(rows: int, activation: str, generator: torch.Generator) -> None:
    from antiphon.ops.triton.quantised.matrix import QuantisedMatrix
    from antiphon.ops.triton.quantised.workspace import ProductWorkspace

    types = (TensorType.Q4_K, TensorType.Q4_K, TensorType.Q6_K, TensorType.Q8_0)
    parts = tuple(random_part(type, 8 + index, 256, generator) for index, type in enumerate(types))
    weight = Weight(parts, 256)
    matrix = QuantisedMatrix.of(weight, "cpu")
    assert len(matrix.pieces) == 3 and matrix.rows == weight.rows == 38
    x, bias = torch.randn(rows, 256, generator=generator).half(), torch.randn(38, generator=generator)
    width = 19 if activation.endswith("_gate") else 38
    residual = torch.randn(rows, width, generator=generator)
    y = matrix.product(x, ProductWorkspace("cpu"), bias, activation, residual)
    assert y.dtype is torch.float32
    assert error(y, expected(x, weight, bias, activation, residual)) < 4e-3
    ids = torch.tensor([37, 0, 16, 17, -1, 27], dtype=torch.int32)
    taken = matrix.take(ids, 2.0).double()
    assert torch.equal(taken, decoded(weight)[ids.clamp(min=0)] * 2 * (ids >= 0)[:, None])


@TYPES
def test_embedding_rows(type: TensorType, generator: torch.Generator) -> None:
    from antiphon.ops.triton.quantised.matrix import QuantisedMatrix

    columns = 768 if type.block.elements == 256 else 288
    weight = Weight((random_part(type, 20, columns, generator),), columns)
    ids = torch.tensor([19, -1, 0, 7], dtype=torch.int32)
    rows = QuantisedMatrix.of(weight, "cpu").take(ids, 2.0)
    assert torch.equal(rows[[0, 2, 3]].double(), decoded(weight)[[19, 0, 7]] * 2)
    assert not rows[1].any()


def test_types_that_are_not_read() -> None:
    from antiphon.errors import UnsupportedError
    from antiphon.ops.triton.quantised.matrix import QuantisedMatrix

    weight = Weight((WeightPart(TensorType.IQ4_NL, 2, torch.zeros(2, 18, dtype=torch.uint8)),), 32)
    with pytest.raises(UnsupportedError, match="do not read IQ4_NL"):
        QuantisedMatrix.of(weight, "cpu")


@pytest.mark.parametrize("rows", [1, 3, 6])
@pytest.mark.parametrize("activation", ["none", "silu_gate"])
def test_fp8_products(rows: int, activation: str, generator: torch.Generator) -> None:
    from antiphon.ops.triton.launch import card
    from antiphon.ops.triton.normed import Normed
    from antiphon.ops.triton.quantised.launches import Product
    from antiphon.ops.triton.quantised.row_scaled import RowScaledMatrix
    from antiphon.ops.triton.quantised.workspace import ProductWorkspace

    matrix = RowScaledMatrix.of(torch.randn(26, 80, generator=generator))
    weight = Weight.from_tensor(matrix.codes.float() * matrix.scales[:, None])
    x, bias = torch.randn(rows, 80, generator=generator), torch.randn(26, generator=generator)
    residual = torch.randn(rows, 13 if activation == "silu_gate" else 26, generator=generator)
    y = matrix.product(x, ProductWorkspace("cpu"), bias, activation, residual)
    assert error(y, expected(x, weight, bias, activation, residual)) < 1e-5
    if rows > 1:
        return
    gain = torch.rand(80, generator=generator)
    normal = x.double() * torch.rsqrt(x.double().square().mean() + 1e-5) * gain
    y = torch.empty(1, residual.shape[1])
    matrix.vector_launch(Product(x, y, 1, activation, bias, norm=Normed(x, gain, 1e-5)), card(x.device))()
    assert error(y, expected(normal, weight, bias, activation)) < 1e-5


def test_float_weights_are_quantised(generator: torch.Generator) -> None:
    import numpy as np
    from gguf import GGMLQuantizationType, quants

    from antiphon.ops.triton.quantised.prepare import prepare_quantised
    from antiphon.ops.triton.quantised.quantising import quantise
    from antiphon.ops.triton.quantised.workspace import ProductWorkspace

    floats = torch.randn(16, 256, generator=generator)
    floats[3] = 0.0
    weight, workspace = Weight.from_tensor(floats), ProductWorkspace("cpu")
    for type, limit in ((TensorType.Q8_0, 0.01), (TensorType.Q4_1, 0.08), (TensorType.F8_E4M3, 0.04)):
        prepared = prepare_quantised(weight, "cpu", type)
        assert prepared is not None
        assert error(prepared.expanded(workspace, torch.float32), floats.double()) < limit
        assert prepared.nbytes < weight.nbytes / 3
        ids = torch.tensor([5, -1, 3])
        assert error(prepared.take(ids), floats[ids.clamp(min=0)].double() * (ids >= 0)[:, None]) < 1.5 * limit
    for type, number in ((TensorType.Q8_0, GGMLQuantizationType.Q8_0), (TensorType.Q4_1, GGMLQuantizationType.Q4_1)):
        theirs = quants.quantize(np.asarray(floats), number)
        assert (quantise(floats, type).numpy() == theirs).mean() > 0.99  # but for ties
    assert prepare_quantised(weight, "cpu") is None
    assert prepare_quantised(Weight.from_tensor(floats[:, :40]), "cpu", TensorType.Q8_0) is None
