"""Norms, rotary embedding and other operations on rows, against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.ops import RotaryTable
from support.kernels.conformance import TOLERANCE, checks, relative


@checks("rms_norm", "layer_norm")
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


@checks("rotary")
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


@checks("scatter_words")
@pytest.mark.parametrize("shape", [(40,), (5, 8)])
def test_scatter_words(shape: tuple[int, ...], generator: torch.Generator) -> None:
    store = torch.arange(40, dtype=torch.int32).view(shape)
    indices = torch.randperm(40, generator=generator)[:7]
    expected = list(range(40))
    for index in indices.tolist():
        expected[index] = -1000 - index
    changes = torch.stack([indices, -1000 - indices], dim=1).int()
    ops.scatter_words(store, changes)
    assert store.view(-1).tolist() == expected
    ops.scatter_words(store, changes[:0])
    assert store.view(-1).tolist() == expected


@checks("add", "gather_rows", "activate", "segment_mean", "softmax_pool", "l2_normalize")
def test_small_operations(generator: torch.Generator) -> None:
    x, y = torch.randn(2, 6, 5, generator=generator)
    assert torch.equal(ops.add(x, y), x + y)
    assert torch.equal(ops.add(x, y[0]), x + y[0])
    assert torch.equal(ops.gather_rows(x, torch.tensor([5, 0, 0])), x[[5, 0, 0]])
    wide = torch.randn(3, 4, 6, generator=generator)
    assert relative(ops.activate(wide, "sigmoid"), 1 / (1 + torch.exp(-wide.double()))) < 1e-6
    column = torch.randn(2510, 1, generator=generator)
    alone = [ops.activate(part, "sigmoid") for part in column.split(31)]
    assert torch.equal(torch.cat(alone), ops.activate(column, "sigmoid")), "a row depends on those beside it"
    lengths = torch.view_as_complex(torch.stack(wide.double().chunk(2, dim=-1), dim=-1)).abs()
    assert relative(ops.activate(wide, "magnitude"), lengths) < 1e-6
    assert torch.equal(ops.activate(wide, "relu"), wide.clamp(min=0))
    means = ops.segment_mean(x, torch.tensor([0, 1, 4, 6], dtype=torch.int32))
    expected = torch.stack([part.double().mean(0) for part in x.split((1, 3, 2))])
    assert relative(means, expected) < 1e-6
    scores = torch.randn(6, 1, generator=generator)
    pooled = ops.softmax_pool(x, scores, torch.tensor([0, 1, 4, 6], dtype=torch.int32))
    parts = zip(x.double().split((1, 3, 2)), scores.double().split((1, 3, 2)), strict=True)
    weighted = torch.stack([(part * own.exp()).sum(0) / own.exp().sum() for part, own in parts])
    assert relative(pooled, weighted) < 1e-6
    assert relative(ops.l2_normalize(x), x.double() / x.double().norm(dim=-1, keepdim=True)) < 1e-6
