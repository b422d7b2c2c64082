"""A vocoder of filtered pulses, shaped noise and a free part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

#: Lowest pitch in Hz, below which a frame is unvoiced, and highest frequency of a harmonic in Hz.
LOWEST_PITCH, HIGHEST_HARMONIC = 40.0, 11_000.0


def pulse_noise_vocoder(
    spectra: Tensor, pitch: Tensor, noise: Sequence[Tensor], lengths: Tensor, width: int, hop: int, rate: int
) -> Tensor:
    """Synthesise samples [B, T * hop] from the sum of filtered pulses at the pitch, shaped noise and a free part.

    `spectra` [B, T, 5 * bins] are log magnitude and turn of the filter, log magnitude of the noise, log magnitude and
    phase of the free part; pitch [B, T] in Hz is unvoiced below 40; noise is complex [bins, T] or longer for each row.
    Frames have `width` samples under a Hann window, `hop` apart; bins = width / 2 + 1. `lengths` should be on the host:
    reading them from a device waits for it.
    """
    return vocode(pulse_train, sum_spectra, spectra, pitch, noise, lengths, width, hop, rate)


def vocode(
    pulse_train: Callable[[Tensor, int, int, float, float], Tensor],
    sum_spectra: Callable[[Tensor, Tensor, Tensor], Tensor],
    spectra: Tensor,
    pitch: Tensor,
    noise: Sequence[Tensor],
    lengths: Tensor,
    width: int,
    hop: int,
    rate: int,
) -> Tensor:
    """Compute `pulse_noise_vocoder` with a backend's functions for the pulses and for the sum of spectra [T, bins]."""
    window = torch.hann_window(width, device=spectra.device)
    out = spectra.new_zeros(len(spectra), spectra.shape[1] * hop)
    for row, frames in enumerate(lengths.tolist()):
        pulses = pulse_train(pitch[row, :frames], hop, rate, LOWEST_PITCH, HIGHEST_HARMONIC)
        source = torch.stft(pulses, width, hop, window=window / (width / 4), return_complex=True).T[:frames]
        spectrum = sum_spectra(source, spectra[row, :frames], noise[row])
        out[row, : frames * hop] = _overlap_add(spectrum, window, hop)
    return out


def pulse_train(pitch: Tensor, hop: int, rate: int, lowest: float, highest: float) -> Tensor:
    """Sum the harmonics up to `highest` Hz of pitch [T], each of amplitude 1 → [T * hop]; 0 where pitch <= `lowest`."""
    position = (torch.arange(hop, device=pitch.device) + 0.5) / hop - 0.5
    around = torch.cat([pitch[:1], pitch, pitch[-1:]])
    first = torch.lerp(around[:-2, None], around[1:-1, None], position[: hop // 2] + 1.0)
    second = torch.lerp(around[1:-1, None], around[2:, None], position[hop // 2 :])
    frequency = torch.cat([first, second], 1).view(-1)
    voiced = frequency > lowest
    frequency = frequency.clamp(min=lowest)
    turns = frequency.double().cumsum(0) / rate
    angle = ((turns - turns.floor()) * (2 * math.pi)).float()
    order = (highest / frequency).floor() + 0.5
    # Sum of cos(h * angle) for h up to the order, in closed form, or its limit where the denominator vanishes.
    denominator = 2 * (angle * 0.5).sin()
    limit = denominator.abs() <= 2e-3
    train = (order * angle).sin() / denominator.masked_fill(limit, 1.0)
    return (torch.where(limit, order, train) - 0.5).masked_fill(~voiced, 0.0)


def sum_spectra(source: Tensor, spectra: Tensor, noise: Tensor) -> Tensor:
    frames, bins = source.shape
    level, turn, noise_level, free_level, free_phase = spectra.split(bins, dim=1)  # [frames, bins]
    spectrum = source * torch.polar(_magnitude(level), math.pi * turn.tanh())
    spectrum += noise.T[:frames] * _magnitude(noise_level)
    spectrum += torch.polar(_magnitude(free_level), free_phase)
    return spectrum


def _magnitude(level: Tensor) -> Tensor:
    return level.clamp(max=7.0).exp()


def _overlap_add(spectrum: Tensor, window: Tensor, hop: int) -> Tensor:
    """Overlap and add T frames of spectrum [T, bins] → [T * hop] samples; frame 0 is centred on sample 0."""
    width, frames = len(window), spectrum.shape[0]
    # The first and the last bin are real: a GPU's transform, unlike the CPU's, does not ignore their imaginary parts.
    spectrum.imag[:, 0] = 0.0
    spectrum.imag[:, -1] = 0.0
    pieces = (torch.fft.irfft(spectrum, width) * window).view(frames, -1, hop)
    weights = window.square().view(-1, hop)
    blocks = pieces.shape[1]
    total = pieces.new_zeros(frames + blocks - 1, hop)
    weight = torch.zeros_like(total)
    for block in range(blocks):
        total[block : block + frames] += pieces[:, block]
        weight[block : block + frames] += weights[block]
    return (total / weight.clamp(min=1e-11)).view(-1)[width // 2 :][: frames * hop]
