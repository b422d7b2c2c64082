"""Spectra of all rows at once, whose lengths the host never reads."""

from __future__ import annotations

import torch
from torch import Tensor


def harmonic_spectrum(source: Tensor, lengths: Tensor, basis: Tensor, hop: int) -> Tensor:
    bins, _, width = basis.shape
    half, batch = width // 2, len(source)
    # Index of every sample of the mirrored rows; frames past a row's end are masked below.
    index = torch.arange(-half, source.shape[1] + half, device=source.device).abs()
    last = (lengths - 1)[:, None]
    mirrored = (last - (last - index).abs()).clamp(min=0)
    pieces = source.gather(1, mirrored).unfold(1, width, hop)  # [B, frames, width]
    spectrum = pieces.reshape(-1, width) @ basis[:, 0].T
    real, imaginary = spectrum.view(batch, -1, bins).split(bins // 2, dim=-1)
    magnitude = (real.square() + imaginary.square()).sqrt_()
    found = torch.cat([magnitude, torch.atan2(imaginary, real)], -1)
    beyond = torch.arange(found.shape[1], device=found.device) >= (lengths // hop + 1)[:, None]
    return found.masked_fill(beyond[..., None], 0.0)
