"""Int8 rows with one scale each: the stated arithmetic to the bit, whatever the company, and close to float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon import ops
from antiphon.ops import native
from antiphon.ops.native import row_scaled
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

VARIANTS = [index for index, _ in enumerate(native.variants()) if row_scaled.has_row_scaled(index)]

pytestmark = pytest.mark.skipif(not VARIANTS, reason="no instruction set here has row-scaled products")

each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=[native.variants()[index] for index in VARIANTS])


def quantized(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int codes [N, K] and fp32 scales [N], as csrc/row_scaled.h states."""
    largest = np.abs(rows).max(-1)
    usable = np.isfinite(largest) & (largest >= 2.0**-100)
    scales = np.where(usable, largest / np.float32(127), np.where(np.isfinite(largest), 0, np.nan)).astype(np.float32)
    inverse = np.where(usable, np.float32(127) / np.where(usable, largest, 1), 0).astype(np.float32)
    codes = np.rint(np.where(usable[:, None], rows, 0) * inverse[:, None])
    return codes.astype(np.int64), scales


def expected(x: Tensor, weight: Tensor) -> np.ndarray:
    x_codes, x_scales = quantized(x.numpy())
    codes, scales = quantized(weight.numpy())
    both = scales[None] * x_scales[:, None]
    return (x_codes @ codes.T).astype(np.float32) * both


@each_variant
@pytest.mark.parametrize(("rows", "columns"), [(37, 64), (16, 512), (1, 192), (130, 2048)])
@pytest.mark.parametrize("tokens", [1, 7, 16, 65, 400])
def test_to_the_bit(rows: int, columns: int, tokens: int, variant: int) -> None:
    generator = torch.Generator().manual_seed(rows + tokens)
    weight, x = (torch.randn(count, columns, generator=generator) for count in (rows, tokens))
    made = row_scaled.ScaledRows.of(weight, variant)
    got = row_scaled.multiply(x, made, variant=variant)
    np.testing.assert_array_equal(got.numpy(), expected(x, weight))
    assert torch.equal(row_scaled.multiply(x[-1:], made, threads=1, variant=variant), got[-1:])
    exact = x.double() @ weight.double().T
    assert float((got - exact).norm() / exact.norm()) < 0.02


@each_variant
def test_what_follows_a_product(variant: int) -> None:
    generator = torch.Generator().manual_seed(3)
    weight, x = torch.randn(40, 128, generator=generator), torch.randn(50, 128, generator=generator)
    bias, residual = torch.randn(40, generator=generator), torch.randn(50, 40, generator=generator)
    made = row_scaled.ScaledRows.of(weight, variant)
    plain = row_scaled.multiply(x, made, variant=variant)
    got = row_scaled.multiply(x, made, bias, "gelu", residual, variant=variant)
    torch.testing.assert_close(got, F.gelu(plain + bias) + residual, rtol=1e-5, atol=1e-4)


@each_variant
def test_rows_without_numbers(variant: int) -> None:
    x = torch.ones(4, 64)
    x[0], x[1, 3], x[2, 5] = 0.0, float("nan"), float("inf")
    got = row_scaled.multiply(x, row_scaled.ScaledRows.of(torch.ones(3, 64), variant), variant=variant)
    assert (got[0] == 0).all() and got[1:3].isnan().all()
    torch.testing.assert_close(got[3], torch.full((3,), 64.0))


@pytest.mark.skipif(0 not in VARIANTS, reason="not what this processor computes with")
def test_a_weight_becomes_them_and_lets_its_floats_go() -> None:
    dense = torch.randn(48, 128, generator=torch.Generator().manual_seed(1))
    weight = Weight.from_tensor(dense)
    with ops.use_backend("native"):
        [form] = ops.prepare_weights([weight], quantize=lambda _: TensorType.I8)
        assert form.quantized is TensorType.I8 and not weight.parts and ops.rounds_inputs(weight)
        x = torch.randn(5, 128)
        np.testing.assert_array_equal(ops.linear(x, weight).numpy(), expected(x, dense))
        gated = ops.linear(x, weight, activation="silu_gate")
        assert gated.shape == (5, 24)
        narrow = Weight.from_tensor(torch.randn(48, 96))
        [form] = ops.prepare_weights([narrow], quantize=lambda _: TensorType.I8)
        assert form.quantized is TensorType.Q8_0
