"""The reference version of the operations that synthesis adds: ragged frames, adaptive norms, source and spectrum.

Frames of several utterances are padded to one length, [B, T, C]; `lengths` [B] counts the frames that are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.types import CountScale

#: In Hz, of the vocoder of pulses and noise: a pitch below is unvoiced; there are no harmonics above.
LOWEST_PITCH, HIGHEST_HARMONIC = 40.0, 11_000.0


def _beyond(lengths: Tensor, frames: int) -> Tensor | None:
    """[B, T], True past the end of a row; None where every row is full."""
    if min(lengths.tolist()) >= frames:
        return None
    return torch.arange(frames, device=lengths.device)[None, :] >= lengths[:, None]


def mask_frames(x: Tensor, lengths: Tensor) -> Tensor:
    beyond = _beyond(lengths, x.shape[1])
    return x if beyond is None else x.masked_fill(beyond.to(x.device)[..., None], 0.0)


def leaky_relu(x: Tensor, slope: float, lengths: Tensor) -> Tensor:
    return mask_frames(F.leaky_relu(x, slope), lengths)


def modulate(x: Tensor, scale: Tensor, shift: Tensor, lengths: Tensor) -> Tensor:
    return mask_frames(torch.addcmul(shift[:, None, :], x, scale[:, None, :]), lengths)


def adaptive_norm(
    x: Tensor,
    lengths: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    slope: float | None = None,
    alpha: Tensor | None = None,
    half: bool = False,
) -> Tensor:
    masked = mask_frames(x, lengths)
    if masked is x:
        variance, mean = torch.var_mean(x, dim=1, correction=0)
    else:
        count = lengths.to(x.dtype)[:, None]
        mean = masked.sum(1) / count
        centred = mask_frames(x - mean[:, None, :], lengths)
        variance = centred.square().sum(1) / count
    y = (x - mean[:, None, :]) * (scale * torch.rsqrt(variance + eps))[:, None, :] + shift[:, None, :]
    if slope is not None:
        y = F.leaky_relu(y, slope)
    if alpha is not None:
        y = y * alpha
        y = y + y.sin().square()
    return mask_frames(y, lengths)


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts), dim=-1)


def repeat_frames(x: Tensor, times: int) -> Tensor:
    return x.repeat_interleave(times, dim=1)


def prepend_mirrored(x: Tensor) -> Tensor:
    return torch.cat([x[:, 1:2], x], dim=1)


def pad_rows(x: Tensor, seq_start: Tensor) -> Tensor:
    starts = seq_start.tolist()
    longest = max(end - start for start, end in pairwise(starts))
    out = x.new_zeros(len(starts) - 1, longest, x.shape[-1])
    for row, (start, end) in enumerate(pairwise(starts)):
        out[row, : end - start] = x[start:end]
    return out


def pack_rows(x: Tensor, lengths: Tensor) -> Tensor:
    if len(x) == 1:
        return x[0, : int(lengths[0])]
    return torch.cat([row[:length] for row, length in zip(x, lengths.tolist(), strict=True)])


def expand_frames(x: Tensor, counts: Tensor) -> Tensor:
    rows = [frames.repeat_interleave(count, dim=0) for frames, count in zip(x, counts, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def frame_counts(logits: Tensor, lengths: Tensor, speed: Tensor, scale: CountScale) -> Tensor:
    frames = logits.sigmoid().sum(-1) if scale == "sigmoid" else logits[..., 0].exp() - 1.0
    counts = (frames / speed[:, None]).round().clamp(min=1).long()
    beyond = _beyond(lengths, counts.shape[1])
    return counts if beyond is None else counts.masked_fill(beyond, 0)


def harmonic_source(
    pitch: Tensor, lengths: Tensor, weight: Tensor, bias: Tensor, hop: int, rate: int, threshold: float, gain: float
) -> Tensor:
    batch, frames = pitch.shape
    harmonics = torch.arange(1, weight.numel() + 1, device=pitch.device, dtype=torch.float32)
    cycles = pitch[..., None] * harmonics / rate
    cycles = cycles - cycles.floor()  # [B, T, harmonics], per sample
    phase = cycles.double().cumsum(1) * hop
    # Linear between the middles of frames; flat before the first and after the last. Whole turns are left out.
    before = torch.cat([phase[:, :1], phase[:, :-1]], 1) - phase
    after = torch.cat([phase[:, 1:], phase[:, -1:]], 1) - phase
    ends = torch.arange(frames, device=pitch.device)[None, :] >= (lengths - 1)[:, None]
    after = after.masked_fill(ends[..., None], 0.0)
    start = (phase - phase.floor()).float()[:, :, None]  # [B, T, 1, harmonics]
    position = (torch.arange(hop, device=pitch.device, dtype=torch.float32)[:, None] + 0.5) / hop - 0.5
    first, second = position[: hop // 2], position[hop // 2 :]
    turns = torch.cat([start - before.float()[:, :, None] * first, start + after.float()[:, :, None] * second], 2)
    waves = (turns * (2 * math.pi)).sin_() * gain
    voiced = (pitch > threshold).to(waves.dtype)
    merged = (waves * voiced[:, :, None, None]) @ weight.view(-1, 1)
    source = torch.tanh(merged.view(batch, frames * hop) + bias)
    return mask_frames(source[..., None], lengths * hop)[..., 0]


def harmonic_spectrum(source: Tensor, lengths: Tensor, basis: Tensor, hop: int) -> Tensor:
    bins, _, width = basis.shape
    half = width // 2
    frames = source.shape[1] // hop + 1
    out = source.new_zeros(len(source), frames, bins)
    for row, length in enumerate(lengths.tolist()):
        padded = F.pad(source[row : row + 1, :length], (half, half), mode="reflect")
        spectrum = F.conv1d(padded[:, None], basis, stride=hop)[0].T  # [frames, real then imaginary]
        real, imaginary = spectrum.split(bins // 2, dim=-1)
        magnitude = (real.square() + imaginary.square()).sqrt_()
        out[row, : length // hop + 1] = torch.cat([magnitude, torch.atan2(imaginary, real)], -1)
    return out


def inverse_spectrum(x: Tensor, lengths: Tensor, basis: Tensor, edge: Tensor, hop: int) -> Tensor:
    bins, _, width = basis.shape
    half = width // 2
    magnitude, phase = x[..., : bins // 2].exp(), x[..., bins // 2 :].sin()
    parts = torch.cat([magnitude * phase.cos(), magnitude * phase.sin()], -1)
    parts = mask_frames(parts, lengths)
    y = _added_up(parts @ basis[:, 0], hop)
    covered = edge > torch.finfo(torch.float32).tiny
    y[:, : len(edge)] = torch.where(covered, y[:, : len(edge)] / edge.where(covered, torch.ones(())), y[:, : len(edge)])
    return y[:, half : y.shape[1] - half] * (width / hop)


def _added_up(pieces: Tensor, hop: int) -> Tensor:
    """Pieces [B, T, width] laid `hop` apart over each other → [B, (T - 1) * hop + width]; hop divides the width."""
    batch, frames, width = pieces.shape
    blocks = pieces.view(batch, frames, width // hop, hop)
    out = pieces.new_zeros(batch, frames + width // hop - 1, hop)
    for block in range(width // hop):
        out[:, block : block + frames] += blocks[:, :, block]
    return out.view(batch, -1)


def log_pitch(pitch: Tensor, scale: float) -> Tensor:
    return torch.log1p(pitch.relu()) * scale


def pulse_train(pitch: Tensor, hop: int, rate: int, lowest: float, highest: float) -> Tensor:
    """All harmonics below `highest` Hz of pitch [T], each of amplitude 1 → [T * hop]; 0 where it is under `lowest`."""
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
    # The sum of cos(h * angle) for h up to the order, in closed form; its limit where the denominator vanishes.
    denominator = 2 * (angle * 0.5).sin()
    limit = denominator.abs() <= 2e-3
    train = (order * angle).sin() / denominator.masked_fill(limit, 1.0)
    return (torch.where(limit, order, train) - 0.5).masked_fill(~voiced, 0.0)


def pulse_noise_vocoder(
    spectra: Tensor, pitch: Tensor, noise: Sequence[Tensor], lengths: Tensor, width: int, hop: int, rate: int
) -> Tensor:
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
    """`pulse_noise_vocoder` with whatever makes pulses, and one spectrum [T, bins] of theirs, of spectra and noise."""
    window = torch.hann_window(width, device=spectra.device)
    out = spectra.new_zeros(len(spectra), spectra.shape[1] * hop)
    for row, frames in enumerate(lengths.tolist()):
        pulses = pulse_train(pitch[row, :frames], hop, rate, LOWEST_PITCH, HIGHEST_HARMONIC)
        source = torch.stft(pulses, width, hop, window=window / (width / 4), return_complex=True).T[:frames]
        spectrum = sum_spectra(source, spectra[row, :frames], noise[row])
        out[row, : frames * hop] = _overlap_add(spectrum, window, hop)
    return out


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
    """The samples that frames of spectrum [T, bins] stand for, T * hop of them, the first centred on sample 0."""
    width, frames = len(window), spectrum.shape[0]
    pieces = (torch.fft.irfft(spectrum, width) * window).view(frames, -1, hop)
    weights = window.square().view(-1, hop)
    blocks = pieces.shape[1]
    total = pieces.new_zeros(frames + blocks - 1, hop)
    weight = torch.zeros_like(total)
    for block in range(blocks):
        total[block : block + frames] += pieces[:, block]
        weight[block : block + frames] += weights[block]
    return (total / weight.clamp(min=1e-11)).view(-1)[width // 2 :][: frames * hop]
