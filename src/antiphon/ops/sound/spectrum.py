"""Harmonic source signals, their spectra, and samples from spectra."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.sound.frames import mask_frames


def harmonic_source(
    pitch: Tensor, lengths: Tensor, weight: Tensor, bias: Tensor, hop: int, rate: int, threshold: float, gain: float
) -> Tensor:
    """Compute tanh(bias + weight [H] · sines of H harmonics) of pitch [B, T] in Hz → [B, T * hop] samples; masked.

    The phase is continuous along the row and linear between the middles of frames. The sines have amplitude `gain`, or
    0 where pitch is at most `threshold`.
    """
    batch, frames = pitch.shape
    harmonics = torch.arange(1, weight.numel() + 1, device=pitch.device, dtype=torch.float32)
    cycles = pitch[..., None] * harmonics / rate
    cycles = cycles - cycles.floor()  # [B, T, harmonics], per sample
    phase = cycles.double().cumsum(1) * hop
    # Constant before the middle of the first frame and after that of the last. Whole turns are dropped for precision.
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
    """Compute magnitudes, then phases, of source [B, N] around every `hop`-th sample → [B, N / hop + 1, bins]; masked.

    `basis` [bins, 1, width] holds the windowed cosines, then the sines; rows are mirrored at both ends. `lengths`
    counts samples.
    """
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
    """Compute samples [B, (T - 1) * hop] from x [B, T, bins]: log magnitudes, then values whose sin() is the phase.

    Frames are projected on `basis` [bins, 1, width], overlapped and added. The first samples are divided by `edge`
    [width], and half a width is removed at both ends.
    """
    bins, _, width = basis.shape
    half = width // 2
    magnitude, phase = x[..., : bins // 2].exp(), x[..., bins // 2 :].sin()
    parts = torch.cat([magnitude * phase.cos(), magnitude * phase.sin()], -1)
    parts = mask_frames(parts, lengths)
    y = _overlap_add(parts @ basis[:, 0], hop)
    covered = edge > torch.finfo(torch.float32).tiny
    y[:, : len(edge)] = torch.where(covered, y[:, : len(edge)] / edge.where(covered, 1.0), y[:, : len(edge)])
    return y[:, half : y.shape[1] - half] * (width / hop)


def log_pitch(pitch: Tensor, scale: float) -> Tensor:
    """Compute log(1 + pitch) * scale, or 0 where pitch is negative."""
    return torch.log1p(pitch.relu()) * scale


def _overlap_add(pieces: Tensor, hop: int) -> Tensor:
    """Overlap and add frames [B, T, width], `hop` apart → [B, (T - 1) * hop + width]; hop must divide the width."""
    batch, frames, width = pieces.shape
    blocks = pieces.view(batch, frames, width // hop, hop)
    out = pieces.new_zeros(batch, frames + width // hop - 1, hop)
    for block in range(width // hop):
        out[:, block : block + frames] += blocks[:, :, block]
    return out.view(batch, -1)
