"""Norms, rotary embedding, rows of matrices and the store of requests, on random shapes against float64."""

from __future__ import annotations

from itertools import pairwise

import torch

from antiphon import ops
from antiphon.ops import RotaryTable
from antiphon.ops.triton.kernels.rows.store import decode_inputs
from antiphon.ops.triton.pages import query_tiles
from antiphon.ops.triton.rows import layer_norm, rms_norm
from antiphon.weights.weight import Weight
from support.kernels.triton_cases import error, normal, number, pick


def test_norms(generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    for _ in range(4):
        shape = (number(generator, 1, 9), number(generator, 1, 4), number(generator, 1, 300))
        x, residual = normal(generator, *shape).to(device), normal(generator, *shape).to(device)
        weight, bias = normal(generator, 2, shape[-1]).to(device)
        x, residual = x.to(pick(generator, (half, torch.float32))), residual if number(generator, 0, 1) else None
        total = (x if residual is None else x + residual).double()
        root = total / (total.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
        centred = total - total.mean(-1, keepdim=True)
        layer = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double() + bias.double()
        y, kept = rms_norm(x, weight, 1e-5, residual, half)
        z, _ = layer_norm(x, weight, bias, 1e-5, residual, torch.float32)
        assert y.dtype is half and error(y, root) < 4e-3
        assert error(z, layer) < 1e-5
        assert error(kept, total) < 1e-6


def test_norm_of_views(generator: torch.Generator, device: torch.device) -> None:
    """Heads of a fused product are normalised where they are."""
    fused = normal(generator, 5, 8, 24).to(device)
    x = fused[:, 2:5]
    with ops.use_backend("triton"):
        y, _ = ops.rms_norm(x, torch.ones(24, device=device), 1e-6)
    assert error(y, x.double() / x.double().square().mean(-1, keepdim=True).sqrt()) < 1e-5


def test_rotary(generator: torch.Generator, device: torch.device) -> None:
    channels = pick(generator, (16, 48, 80))
    rotated = pick(generator, (channels, channels // 2))
    angles = torch.rand(40, rotated // 2, generator=generator)
    table = RotaryTable(torch.cat([angles.cos(), angles.sin()], 1).to(device))
    fused = normal(generator, 7, 9, channels).to(device)
    q, k = fused[:, :6], fused[:, 6:]
    positions = torch.randint(40, (7,), generator=generator).int().to(device)
    with ops.use_backend("triton"):
        got = ops.rotary(q, k, positions, table)
    with ops.use_backend("reference"):
        expected = ops.rotary(q.double(), k.double(), positions, RotaryTable(table.values.double()))
    assert all(error(a, b) < 1e-6 for a, b in zip(got, expected, strict=True))


def test_embed_and_gather(generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    width = number(generator, 3, 200)
    table = normal(generator, 31, width).to(half)
    ids = torch.randint(31, (9,), generator=generator).int()
    weight = Weight.from_tensor(table)
    with ops.use_backend("triton"):
        rows = ops.embed(torch.cat([ids, torch.tensor([-1])]).int().to(device), weight, 1.5)
        gathered = ops.gather_rows(table.to(device), ids.to(device))
    assert rows.dtype is torch.float32
    assert error(rows[:-1], table[ids.long()].double() * 1.5) < 1e-6
    assert not rows[-1].any()
    assert torch.equal(gathered.cpu(), table[ids.long()])


def test_tiles(generator: torch.Generator, device: torch.device) -> None:
    counts = [number(generator, 0, 40) for _ in range(number(generator, 1, 9))]
    first = number(generator, 0, len(counts) - 1)
    starts = torch.tensor([0, *counts]).cumsum(0).int().to(device)
    queries = sum(counts[first:])
    tiles = query_tiles(starts, queries, 16, first).tolist() if queries else []
    expected = [[r, at] for r, count in enumerate(counts) if r >= first for at in range(0, count, 16)]
    assert tiles[: len(expected)] == expected
    assert all(request == -1 for request, _ in tiles[len(expected) :])


def test_rows_of_requests(device: torch.device) -> None:
    store = torch.arange(60, dtype=torch.int32, device=device).view(6, 10)
    changes = torch.tensor([[20, 77], [21, 5]], dtype=torch.int32, device=device)
    with ops.use_backend("triton"):
        ops.scatter_words(store, changes)
    assert store[2, :3].tolist() == [77, 5, 22]
    rows = torch.tensor([2, -1, 5], dtype=torch.int32, device=device)
    out = [torch.full((3,), -9, dtype=torch.int32, device=device) for _ in range(6)]
    columns = [store[:, word] for word in range(4)]
    decode_inputs[(1,)](rows, rows, rows, *columns, *out, 3, 10, BLOCK=4, CHAINED=False)
    expected = [[77, -1, 50], [5, 0, 51], [6, 0, 52], [22, 0, 52], [2, 0, 5], [23, -1, 53]]
    assert [column.tolist() for column in out] == expected
    given, offsets = (torch.tensor(values, dtype=torch.int32, device=device) for values in ([-1, 8, 9], [0, 1, 2]))
    decode_inputs[(1,)](rows, given, offsets, *columns, *out, 3, 10, BLOCK=4, CHAINED=True)
    expected = [[77, -1, 9], [5, 0, 53], [6, 0, 54], [22, 0, 52], [2, 0, 5], [23, -1, 53]]
    assert [column.tolist() for column in out] == expected


def test_means_of_sequences(generator: torch.Generator, device: torch.device, half: torch.dtype) -> None:
    """Of a part of wider rows; the last sequence is empty."""
    for dtype in (torch.float32, half):
        starts, width = [0, number(generator, 1, 40), 41, 44, 44], number(generator, 1, 140)
        x = normal(generator, 50, 150).to(device).to(dtype)[:, :width]
        with ops.use_backend("triton"):
            got = ops.segment_mean(x, torch.tensor(starts, dtype=torch.int32, device=device))
        own = [x[begin:end].double().mean(0) for begin, end in pairwise(starts[:-1])]
        assert got.dtype is torch.float32 and error(got[:3], torch.stack(own)) < 1e-5 and not got[3].any()
