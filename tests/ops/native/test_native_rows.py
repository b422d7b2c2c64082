"""Native epilogues, norms and rotary embedding: accurate element by element, and the same bits in any company."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from antiphon.ops import RotaryTable, native
from antiphon.ops.reference import product
from antiphon.ops.reference import rows as reference
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")

VARIANTS = pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gelu_tanh(x: Tensor) -> Tensor:
    """In the form that keeps its accuracy where the tanh comes near -1."""
    inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    return x * torch.sigmoid(2 * inner)


EXACT: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": lambda x: x * 0.5 * torch.erfc(-x * 0.5**0.5),
    "gelu_tanh": gelu_tanh,
    "silu": torch.nn.functional.silu,
}


@VARIANTS
@pytest.mark.parametrize("activation", EXACT)
def test_activations_are_accurate_relative_to_each_value(activation: Activation, variant: int) -> None:
    values = torch.cat([torch.linspace(-8, 8, 4001), torch.logspace(-30, 1.9, 500), -torch.logspace(-30, 0.5, 500)])
    got = native.linear(values[:, None], Weight.from_tensor(torch.ones(1, 1)), activation=activation, variant=variant)
    expected = EXACT[activation](values.double())
    error = (got[:, 0].double() - expected).abs()
    assert bool((error <= 2e-6 * expected.abs()).where(expected.abs() > 1e-6, True).all())
    assert bool((error <= 1e-5 * expected.abs()).all())


@VARIANTS
@pytest.mark.parametrize("rows", [38, 256])
@pytest.mark.parametrize("activation", ["none", "gelu", "silu_gate", "gelu_tanh_gate"])
def test_an_epilogue_is_the_same_bits_in_any_company(activation: Activation, rows: int, variant: int) -> None:
    weight, bias, x = Weight.from_tensor(randn(rows, 70)), randn(rows, seed=1), randn(33, 70, seed=2)
    residual = randn(33, rows // 2 if activation.endswith("gate") else rows, seed=3)
    whole = native.linear(x, weight, bias, activation, residual, threads=1, variant=variant)
    for threads in (1, 2, 5):
        for tokens in (1, 2, 33):
            own = (x[:tokens], weight, bias, activation, residual[:tokens])
            got = native.linear(*own, threads=threads, variant=variant)
            assert torch.equal(got, whole[:tokens])
    torch.testing.assert_close(whole, product.linear(x, weight, bias, activation, residual), atol=1e-4, rtol=1e-5)


def test_an_epilogue_reads_strided_and_broadcast_residuals() -> None:
    weight, x = Weight.from_tensor(randn(24, 64)), randn(5, 64, seed=1)
    for residual in (randn(5, 48, seed=2)[:, 8:32], randn(24, 5, seed=2).T, randn(24, seed=2), randn(5, 1, seed=2)):
        expected = product.linear(x, weight, None, "silu", residual)
        torch.testing.assert_close(native.linear(x, weight, None, "silu", residual), expected, atol=1e-5, rtol=1e-5)
    wide = randn(5, 100, seed=3)
    assert torch.equal(native.linear(wide[:, 3:67], weight), native.linear(wide[:, 3:67].contiguous(), weight))


@VARIANTS
@pytest.mark.parametrize("width", [1, 7, 64, 100, 896])
def test_norms_are_the_same_bits_in_any_company(width: int, variant: int) -> None:
    x, residual, weight, bias = randn(70, width), randn(70, width, seed=1), randn(width, seed=2), randn(width, seed=3)

    def norms(rows: slice, threads: int) -> tuple[Tensor, ...]:
        rms = native.rms_norm(x[rows], weight, 1e-6, residual[rows], threads=threads, variant=variant)
        return rms + native.layer_norm(x[rows], weight, bias, 1e-6, residual[rows], threads=threads, variant=variant)

    whole = norms(slice(None), 1)
    expected = (*reference.rms_norm(x, weight, 1e-6, residual), *reference.layer_norm(x, weight, bias, 1e-6, residual))
    for got, wanted in zip(whole, expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=2e-5, rtol=2e-5)
    for threads in (2, 5):
        for rows in (slice(None), slice(3, 4), slice(10, 60)):
            for got, wanted in zip(norms(rows, threads), whole, strict=True):
                assert torch.equal(got, wanted[rows])


def test_norms_read_views_of_a_fused_product() -> None:
    fused, weight, bias = randn(9, 8, 32), randn(32, seed=1), randn(32, seed=2)
    view = fused[:, 2:5]
    assert torch.equal(native.rms_norm(view, weight, 1e-6)[0], native.rms_norm(view.contiguous(), weight, 1e-6)[0])
    y, kept = native.layer_norm(view, weight, bias, 1e-6)
    assert kept is view and torch.equal(y, native.layer_norm(view.contiguous(), weight, bias, 1e-6)[0])
    columns = randn(32, 9).T
    torch.testing.assert_close(native.rms_norm(columns, weight, 1e-6), reference.rms_norm(columns, weight, 1e-6))
    narrow = view.to(torch.bfloat16)
    assert torch.equal(native.rms_norm(narrow, weight, 1e-6)[0], reference.rms_norm(narrow, weight, 1e-6)[0])


@VARIANTS
@pytest.mark.parametrize(("head_dim", "rotated"), [(64, 64), (64, 32), (20, 12)])
def test_rotary_equals_the_reference(head_dim: int, rotated: int, variant: int) -> None:
    fused, table = randn(500, 7, head_dim), RotaryTable(randn(600, rotated, seed=1))
    q, k = fused[:, :4], fused[:, 4:6]
    positions = torch.randperm(600)[:500].int()
    expected = reference.rotary(q, k, positions, table)
    for threads in (1, 3):
        got = native.rotary(q, k, positions, table, threads=threads, variant=variant)
        assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])


@pytest.mark.parametrize("position", [-1, 10])
def test_a_position_outside_the_table_is_refused(position: int) -> None:
    q = randn(1, 2, 8)
    with pytest.raises(IndexError, match="10 rows"):
        native.rotary(q, q, torch.tensor([position]), RotaryTable(randn(10, 8)))
