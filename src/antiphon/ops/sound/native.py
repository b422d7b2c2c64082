"""Native kernels of synthesis: the adaptive norm in two passes over memory, the vocoder's source and spectra in one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.ops.native.extension import available, extension
from antiphon.ops.native.half import half_format
from antiphon.ops.sound import frames, vocoder
from antiphon.ops.threads import default_threads

_NONE, _LEAKY, _SNAKE = range(3)


def adaptive_norm(
    x: Tensor,
    lengths: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    slope: float | None = None,
    alpha: Tensor | None = None,
    half: bool = False,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    plain = available() and x.is_cpu and x.dtype is torch.float32 and x.is_contiguous()
    if not plain or (slope is not None and alpha is not None):
        return frames.adaptive_norm(x, lengths, scale, shift, eps, slope, alpha)
    form = half_format(variant) if half else None
    scale, shift = scale.contiguous(), shift.contiguous()
    out = torch.empty(x.shape, dtype=torch.float32 if form is None else form.dtype)
    function = _LEAKY if slope is not None else _SNAKE if alpha is not None else _NONE
    for row, length in enumerate(lengths.tolist()):
        extension().adaptive_norm(
            x[row].data_ptr(), length, x.shape[2], scale[row].data_ptr(), shift[row].data_ptr(),
            0 if alpha is None else alpha.data_ptr(), eps, function, slope or 0.0,
            out[row].data_ptr() if form is None else 0, 0 if form is None else out[row].data_ptr(),
            threads or default_threads(), variant,
        )  # fmt: skip
        out[row, length:] = 0.0
    return out


def pulse_noise_vocoder(
    spectra: Tensor, pitch: Tensor, noise: Sequence[Tensor], lengths: Tensor, width: int, hop: int, rate: int
) -> Tensor:
    if not (available() and spectra.is_cpu and spectra.dtype is torch.float32 and pitch.dtype is torch.float32):
        return vocoder.pulse_noise_vocoder(spectra, pitch, noise, lengths, width, hop, rate)
    return vocoder.vocode(pulse_train, sum_spectra, spectra, pitch, noise, lengths, width, hop, rate)


def pulse_train(
    pitch: Tensor, hop: int, rate: int, lowest: float, highest: float, threads: int | None = None, variant: int = 0
) -> Tensor:
    pitch = pitch.contiguous()
    out = torch.empty(len(pitch) * hop)
    extension().pulse_train(
        pitch.data_ptr(), len(pitch), hop, rate, lowest, highest, out.data_ptr(), threads or default_threads(), variant
    )
    return out


def sum_spectra(source: Tensor, spectra: Tensor, noise: Tensor, threads: int | None = None, variant: int = 0) -> Tensor:
    """Filter pulses [T, bins] and noise [bins, at least T] by spectra [T, 5 * bins] and add → complex [T, bins]."""
    frames, bins = source.shape
    source, spectra, noise = source.contiguous(), spectra.contiguous(), noise.contiguous()
    out = torch.empty(frames, bins, dtype=torch.complex64)
    extension().sum_spectra(
        source.data_ptr(), spectra.data_ptr(), noise.data_ptr(), noise.shape[1], frames, bins, out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out
