"""Norms over frames and convolutions, on random shapes against float64; every row as it would be alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from antiphon import ops
from antiphon.ops.types import LSTMWeights
from support.kernels.triton_cases import error, normal, number, pick


def test_adaptive_norm(generator: torch.Generator, device: torch.device) -> None:
    """Rows of several parts, far from zero; what is beyond their lengths is not a number."""
    for kind in ("plain", "slope", "alpha"):
        channels = pick(generator, (3, 40, 66))
        lengths = [number(generator, 1, 600) for _ in range(3)]
        x = normal(generator, 3, max(lengths), channels) * 3 + 50
        for row, length in zip(x, lengths, strict=True):
            row[length:] = torch.nan
        both, alpha = normal(generator, 3, 2 * channels), torch.rand(channels, generator=generator) + 0.5
        scale, shift = both.to(device).split(channels, dim=-1)  # rows with a stride
        half = kind == "alpha"
        with ops.use_backend("triton"):
            got = ops.adaptive_norm(
                x.to(device), torch.tensor(lengths, device=device), scale, shift, 1e-5,
                0.2 if kind == "slope" else None, alpha.to(device) if kind == "alpha" else None, half,
            )  # fmt: skip
        assert got.dtype is (torch.float16 if half else torch.float32)
        for row, length in enumerate(lengths):
            own = x[row, :length].double()
            y = (own - own.mean(0)) / (own.var(0, correction=0) + 1e-5).sqrt()
            y = y * both[row, :channels].double() + both[row, channels:].double()
            if kind == "slope":
                y = F.leaky_relu(y, 0.2)
            if kind == "alpha":
                y = y * alpha.double() + (y * alpha.double()).sin().square()
            assert error(got[row, :length], y) < (1e-3 if half else 3e-5)
            assert not got[row, length:].any()


def test_convolutions(generator: torch.Generator, device: torch.device) -> None:
    for half in (False, True):
        inputs, outputs, taps = number(generator, 1, 40), number(generator, 1, 40), pick(generator, (1, 3, 7))
        dilation, pad = number(generator, 1, 4), number(generator, 0, 5)
        x, weight = normal(generator, 3, 90, inputs), normal(generator, outputs, inputs, taps) / (inputs * taps) ** 0.5
        bias = normal(generator, outputs)
        expected = F.conv1d(x.double().mT, weight.double(), bias.double(), padding=pad, dilation=dilation).mT
        placed = [tensor.to(device) for tensor in (x, weight, bias)]
        with ops.use_backend("triton"), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            if half:
                residual = normal(generator, *expected.shape)
                got = ops.half_conv1d(*placed, 1, (pad, pad), dilation, residual=residual.to(device))
                expected = expected + residual.double()
            else:
                got = ops.conv1d(*placed, 1, (pad, pad), dilation)
        assert got.dtype is torch.float32 and got.is_contiguous()
        assert error(got, expected) < (2e-3 if half else 1e-5)


def test_transposed_convolutions(generator: torch.Generator, device: torch.device) -> None:
    for groups in (1, 6):
        taps, stride, padding = pick(generator, ((3, 2, 1), (20, 10, 5), (12, 6, 3)))
        x, bias = normal(generator, 2, 33, 6), normal(generator, 6 if groups > 1 else 5)
        weight = normal(generator, 6, 1 if groups > 1 else 5, taps)
        expected = F.conv_transpose1d(
            x.double().mT, weight.double(), bias.double(), stride, padding, stride - 1, groups
        ).mT
        placed = [tensor.to(device) for tensor in (x, weight, bias)]
        with ops.use_backend("triton"), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            got = ops.conv_transpose1d(*placed, stride, padding, stride - 1, groups)
        assert got.shape == expected.shape and got.is_contiguous() and error(got, expected) < 1e-5


def test_lstm(generator: torch.Generator, device: torch.device) -> None:
    inputs, hidden, lengths = number(generator, 1, 20), number(generator, 1, 40), [17, 5, 1]
    sizes = [(4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)]
    ways = [LSTMWeights(*(normal(generator, *size).to(device) * 0.3 for size in sizes)) for _ in range(2)]
    x = normal(generator, 3, 17, inputs).to(device)
    with ops.use_backend("triton"), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for _ in range(2):  # the second call finds the parameters in one piece
            got = ops.lstm(x, torch.tensor(lengths, device=device), *ways)
    double = [LSTMWeights(*(value.cpu().double() for value in vars(way).values())) for way in ways]
    for row, length in enumerate(lengths):
        with ops.use_backend("reference"):
            expected = ops.lstm(x[row : row + 1, :length].cpu().double(), torch.tensor([length]), *double)
        assert error(got[row, :length], expected[0]) < 1e-5
        assert not got[row, length:].any()
