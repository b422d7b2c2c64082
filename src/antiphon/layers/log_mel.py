"""`LogMel`: the frames of `audio.mel.window_features`, for batches of windows on the model's device."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.audio.mel import DYNAMIC_RANGE, FFT, FLOOR, HOP, SILENCE, mel_filters
from antiphon.layers.module import Module


class LogMel(Module):
    """Log-mel frames of windows of samples at 16 kHz, each zero-padded to `num_samples` → [B, frames, mels].

    The spectrum has 64 bits, as on the CPU: in 32 bits, a loud band would hide a band eight decades below. The product
    with the mel filters has 64 bits too, because GPUs may round the factors of 32-bit products. Nothing is copied to
    the host.
    """

    def __init__(self, num_mels: int, num_frames: int) -> None:
        self.num_frames = num_frames
        self.num_samples = num_frames * HOP
        self.filters = torch.from_numpy(mel_filters(num_mels).copy())
        self.window = torch.hann_window(FFT, periodic=True, dtype=torch.float64)

    def __call__(self, samples: Tensor) -> Tensor:
        padded = F.pad(samples, (FFT // 2, FFT // 2), mode="reflect")
        spans = padded.unfold(-1, FFT, HOP)[:, : self.num_frames] * self.window  # [B, frames, FFT]
        spectrum = torch.fft.rfft(spans)
        power = spectrum.real.square() + spectrum.imag.square()
        frames = (power @ self.filters).float().clamp(min=FLOOR).log2() * math.log10(2)
        loudest = frames.amax((1, 2), keepdim=True).clamp(min=SILENCE)
        return (torch.maximum(frames, loudest - DYNAMIC_RANGE) + 4.0) / 4.0
