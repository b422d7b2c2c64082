"""The operations of synthesis: each against an independent computation, and every row as it would be alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon import ops
from antiphon.ops.sound import vocoder
from support.kernels.conformance import checks

LENGTHS = torch.tensor([150, 97, 3])


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(23)


def frames(generator: torch.Generator, channels: int = 6) -> Tensor:
    return torch.randn(len(LENGTHS), int(LENGTHS.max()), channels, generator=generator)


def rows(x: Tensor) -> list[Tensor]:
    return [row[:length] for row, length in zip(x, LENGTHS.tolist(), strict=True)]


def padded(parts: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


@checks("mask_frames", "leaky_relu", "modulate")
def test_masks(generator: torch.Generator) -> None:
    x = frames(generator)
    torch.testing.assert_close(ops.mask_frames(x, LENGTHS), padded(rows(x)))
    torch.testing.assert_close(ops.leaky_relu(x, 0.2, LENGTHS), padded([F.leaky_relu(r, 0.2) for r in rows(x)]))
    scale, shift = torch.randn(2, 3, 6, generator=generator)
    expected = padded([r * s + t for r, s, t in zip(rows(x), scale, shift, strict=True)])
    torch.testing.assert_close(ops.modulate(x, scale, shift, LENGTHS), expected)


@checks("adaptive_norm")
@pytest.mark.parametrize("kind", ["plain", "slope", "alpha"])
def test_adaptive_norm_sees_only_its_own_frames(kind: str, generator: torch.Generator) -> None:
    x = frames(generator) * 3 + 1
    scale, shift = torch.randn(2, 3, 6, generator=generator)
    alpha = torch.rand(6, generator=generator) + 0.5
    got = ops.adaptive_norm(
        x, LENGTHS, scale, shift, 1e-5, 0.2 if kind == "slope" else None, alpha if kind == "alpha" else None
    )
    expected = []
    for row, gain, offset in zip(rows(x.double()), scale.double(), shift.double(), strict=True):
        y = F.instance_norm(row.T[None], eps=1e-5)[0].T * gain + offset
        if kind == "slope":
            y = F.leaky_relu(y, 0.2)
        if kind == "alpha":
            y = alpha.double() * (y + torch.sin(alpha.double() * y) ** 2 / alpha.double())
        expected.append(y)
    torch.testing.assert_close(got.double(), padded(expected), rtol=1e-4, atol=1e-4)


@checks("pack_rows", "pad_rows", "repeat_frames", "prepend_mirrored", "concatenate", "expand_frames")
def test_rows_are_padded_packed_repeated_and_expanded(generator: torch.Generator) -> None:
    x = frames(generator)
    starts = torch.tensor([0, 150, 247, 250], dtype=torch.int32)
    packed = ops.pack_rows(x, LENGTHS)
    torch.testing.assert_close(packed, torch.cat(rows(x)))
    torch.testing.assert_close(ops.pad_rows(packed, starts), padded(rows(x)))
    torch.testing.assert_close(ops.repeat_frames(x, 3), x.repeat_interleave(3, 1))
    torch.testing.assert_close(ops.prepend_mirrored(x), torch.cat([x[:, 1:2], x], 1))
    torch.testing.assert_close(ops.concatenate([x, 2 * x]), torch.cat([x, 2 * x], -1))
    torch.testing.assert_close(ops.add(x, x, 0.25), x / 2)
    counts = torch.tensor([[2, 0, 3], [1, 1, 0]])
    got = ops.expand_frames(x[:2, :3], counts)
    assert got.shape == (2, 5, 6)
    torch.testing.assert_close(got[0], torch.stack([x[0, i] for i in (0, 0, 2, 2, 2)]))
    torch.testing.assert_close(got[1], torch.stack([x[1, 0], x[1, 1], *torch.zeros(3, 6)]))


@checks("frame_counts", "log_pitch")
def test_frame_counts(generator: torch.Generator) -> None:
    logits = torch.randn(2, 4, 50, generator=generator)
    speed, lengths = torch.tensor([1.0, 0.5]), torch.tensor([4, 2])
    got = ops.frame_counts(logits, lengths, speed, "sigmoid")
    expected = np.maximum(1, np.round((1 / (1 + np.exp(-logits.double().numpy()))).sum(-1) / [[1.0], [0.5]]))
    expected[1, 2:] = 0
    np.testing.assert_array_equal(got.numpy(), expected)
    frames = [3, 1, 1, 4, 6, 1, 2]  # at speed 1; at 1.5 they end after 2, 2.7, 3.3, 6, 10, 10.7 and 12
    logits = torch.tensor(frames).add(1).log()[None, :, None].expand(2, -1, -1)
    got = ops.frame_counts(logits, torch.tensor([7, 7]), torch.tensor([1.5, 4.0]), "expm1")
    assert got.tolist() == [[2, 1, 1, 2, 4, 1, 1], [1] * 7]
    single = torch.tensor([[[0.1], [2.0]]])
    got = ops.frame_counts(single, torch.tensor([2]), torch.tensor([1.0]), "expm1")
    assert got.tolist() == [[1, round(math.e**2 - 1)]]
    torch.testing.assert_close(ops.log_pitch(torch.tensor([-1.0, 3.0]), 0.2), torch.tensor([0.0, 0.2 * math.log(4)]))


@checks("harmonic_source")
def test_harmonic_source_is_the_sum_of_its_sines() -> None:
    pitch = torch.tensor([[0.0, 100.0, 110.0, 120.0, 0.0], [200.0, 210.0, 0.0, 0.0, 0.0]])
    lengths, weight, bias = torch.tensor([5, 3]), torch.tensor([0.5, -0.3, 0.2]), torch.tensor([0.1])
    hop, rate = 30, 8000
    got = ops.harmonic_source(pitch, lengths, weight, bias, hop, rate, 10.0, 0.1)
    for row, length in enumerate(lengths.tolist()):
        own = pitch[row, :length].double().numpy()
        total = np.zeros(length * hop)
        for harmonic, gain in enumerate(weight.tolist(), 1):
            phase = np.cumsum(own * harmonic / rate) * hop
            positions = (np.arange(length * hop) + 0.5) / hop - 0.5
            total += gain * 0.1 * np.sin(2 * np.pi * np.interp(positions, np.arange(length), phase))
        total *= np.repeat(own > 10.0, hop)
        np.testing.assert_allclose(got[row, : length * hop].numpy(), np.tanh(total + 0.1), atol=2e-5)
    assert not got[1, 90:].any()


@checks("harmonic_spectrum", "inverse_spectrum")
def test_spectrum_there_and_back(generator: torch.Generator) -> None:
    width, hop = 20, 5
    n = torch.arange(width, dtype=torch.float64)
    window = 0.5 - 0.5 * torch.cos(2 * math.pi * n / width)
    angle = 2 * math.pi * torch.outer(torch.arange(11, dtype=torch.float64), n) / width
    basis = torch.cat([angle.cos() * window, -angle.sin() * window])[:, None].float()
    x = torch.randn(2, 200, generator=generator)
    lengths = torch.tensor([200, 120])
    got = ops.harmonic_spectrum(x, lengths, basis, hop)
    for row, length in enumerate(lengths.tolist()):
        own = torch.stft(x[row, :length], width, hop, window=window.float(), return_complex=True).T
        torch.testing.assert_close(got[row, : length // hop + 1, :11], own.abs(), rtol=1e-4, atol=1e-4)
        same = torch.polar(torch.ones(()), got[row, : length // hop + 1, 11:] - own.angle()).real
        assert float(same[own.abs() > 1e-3].min()) > 0.999
    assert not got[1, 25:].any()
    logs = torch.randn(2, 9, 22, generator=generator) * 0.3
    edge, frames_ = torch.linspace(0.0, 2.0, width), torch.tensor([9, 6])
    sound = ops.inverse_spectrum(logs, frames_, basis, edge, hop)
    alone = ops.inverse_spectrum(logs[1:, :6], frames_[1:], basis, edge, hop)
    torch.testing.assert_close(sound[1, :25], alone[0])
    magnitude, phase = logs[0, :, :11].exp(), logs[0, :, 11:].sin()
    parts = torch.cat([magnitude * phase.cos(), magnitude * phase.sin()], -1).double().numpy()
    total = np.zeros(8 * hop + width)
    for index in range(9):
        total[index * hop : index * hop + width] += parts[index] @ basis[:, 0].double().numpy()
    total[1:width] /= edge[1:].numpy()
    np.testing.assert_allclose(sound[0].numpy(), total[10:-10] * 4, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("width", "dilation", "frames_"), [(3, 1, 70), (3, 5, 400), (7, 3, 333), (11, 1, 258), (5, 1, 65)]
)
def test_wide_convolutions(width: int, dilation: int, frames_: int, generator: torch.Generator) -> None:
    x = torch.randn(2, frames_, 64, generator=generator)
    weight, bias = torch.randn(96, 64, width, generator=generator), torch.randn(96, generator=generator)
    pad = (width - 1) * dilation // 2
    expected = F.conv1d(x.double().transpose(1, 2), weight.double(), bias.double(), padding=pad, dilation=dilation)
    for _ in range(2):  # the second call finds the weight prepared
        got = ops.conv1d(x, weight, bias, 1, (pad, pad), dilation)
        assert float((got.double() - expected.transpose(1, 2)).abs().max() / expected.abs().max()) < 1e-5
    got = ops.conv1d(x, weight, None, 1, (2 * pad, 0), dilation)
    causal = F.conv1d(F.pad(x.double().transpose(1, 2), (2 * pad, 0)), weight.double(), dilation=dilation)
    assert float((got.double() - causal.transpose(1, 2)).abs().max() / causal.abs().max()) < 1e-5


@pytest.mark.parametrize(("width", "stride", "padding"), [(20, 10, 5), (12, 6, 3), (4, 4, 0), (6, 2, 1)])
def test_transposed_convolutions(width: int, stride: int, padding: int, generator: torch.Generator) -> None:
    x = torch.randn(2, 17, 8, generator=generator)
    weight, bias = torch.randn(8, 5, width, generator=generator), torch.randn(5, generator=generator)
    expected = F.conv_transpose1d(x.double().transpose(1, 2), weight.double(), bias.double(), stride, padding)
    got = ops.conv_transpose1d(x, weight, bias, stride, padding)
    torch.testing.assert_close(got.double(), expected.transpose(1, 2), rtol=1e-4, atol=1e-4)


def test_vocoder_agrees_with_hibaris_own(generator: torch.Generator) -> None:
    dsp = pytest.importorskip("hibari.dsp")
    bins, count = 601, 40
    spectra = torch.randn(2, count, 5 * bins, generator=generator) * 0.5 - 2.0
    pitch = torch.rand(2, count, generator=generator) * 200 + 20
    lengths = torch.tensor([40, 25])
    noise = [
        np.random.default_rng(seed).standard_normal((bins, 2 * int(n)), np.float32) for seed, n in enumerate(lengths)
    ]
    got = ops.pulse_noise_vocoder(
        spectra, pitch, [torch.from_numpy(z.view(np.complex64)) for z in noise], lengths, 1200, 300, 24_000
    )
    for row, length in enumerate(lengths.tolist()):
        parts = [part.T.contiguous().numpy() for part in spectra[row, :length].split(bins, -1)]
        expected = dsp.synth(*parts, pitch[row, :length].numpy(), np.random.default_rng(row))
        error = np.linalg.norm(got[row, : length * 300].numpy() - expected) / np.linalg.norm(expected)
        assert error < 1e-3
    assert not got[1, 25 * 300 :].any()


@checks("pulse_noise_vocoder")
def test_vocoder_agrees_with_the_reference_row_by_row(generator: torch.Generator) -> None:
    width, hop, rate, lengths = 120, 30, 24_000, torch.tensor([20, 13])
    bins = width // 2 + 1
    spectra = torch.randn(2, 20, 5 * bins, generator=generator) * 0.5 - 2.0
    pitch = torch.rand(2, 20, generator=generator) * 300 + 20
    noise = [torch.view_as_complex(torch.randn(bins, 20, 2, generator=generator)) for _ in range(2)]
    got = ops.pulse_noise_vocoder(spectra, pitch, noise, lengths, width, hop, rate)
    for row, length in enumerate(lengths.tolist()):
        own = slice(row, row + 1)
        expected = vocoder.pulse_noise_vocoder(
            spectra[own, :length], pitch[own, :length], noise[own], lengths[own], width, hop, rate
        )
        assert float((got[own, : length * hop] - expected).norm() / expected.norm()) < 1e-3
    assert not got[1, 13 * hop :].any()
