"""Log-mel frames as Whisper expects them: 25 ms Hann windows every 10 ms, Slaney mel bands, log10 of power.

Raw frames (log10, clamped at 1e-10) do not depend on later sound, so they can be made as sound arrives. The floor
8 decades under the loudest band of a window depends on the whole window, so `normalize` applies it when the window
is cut.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.errors import AudioError

FFT = 400
HOP = 160
BINS = FFT // 2 + 1
FRAMES_PER_SECOND = SPEECH_RATE // HOP
WINDOW_SECONDS = 30
WINDOW_FRAMES = WINDOW_SECONDS * FRAMES_PER_SECOND
FLOOR = 1e-10
DYNAMIC_RANGE = 8.0
#: Value of raw frames of digital silence.
SILENCE = -10.0

_BLOCK = 256  # frames whose spectra are in memory at once
_LOG10_OF_2 = np.float32(np.log10(2.0))


@cache
def mel_filters(num_mels: int) -> NDArray[np.float64]:
    """Return triangular bands [BINS, num_mels] of unit area on Slaney's mel scale (logarithmic above 1 kHz)."""
    edges = _hertz(np.linspace(0.0, float(_mel(np.array(SPEECH_RATE / 2))), num_mels + 2))
    bins = np.linspace(0.0, SPEECH_RATE / 2, BINS)
    rising = (bins[:, None] - edges[None, :-2]) / np.diff(edges)[None, :-1]
    falling = (edges[None, 2:] - bins[:, None]) / np.diff(edges)[None, 1:]
    bands = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))
    bands.setflags(write=False)
    return bands


def _mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(hertz < 1000.0, 0.015 * hertz, 15.0 + np.log(np.maximum(hertz, 1.0) / 1000.0) * 27.0 / np.log(6.4))


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < 15.0, mel / 0.015, 1000.0 * np.exp(np.log(6.4) / 27.0 * (mel - 15.0)))


def log_mel(samples: Floats, num_mels: int) -> Floats:
    """Return raw frames [len(samples) // 160, num_mels] of mono sound at 16 kHz, mirrored at its ends.

    Sound shorter than 201 samples is padded with silence.
    """
    num_frames = len(samples) // HOP
    if len(samples) <= FFT // 2:
        samples = np.pad(samples, (0, FFT // 2 + 1 - len(samples)))
    return _frames(np.pad(samples, FFT // 2, mode="reflect"), num_frames, num_mels)


def normalize(frames: Floats) -> Floats:
    """Normalise the raw frames of one window for the model: floor 8 decades under the loudest, then (x + 4) / 4."""
    top = frames.max(initial=SILENCE)
    out: Floats = ((np.maximum(frames, top - DYNAMIC_RANGE) + 4.0) / 4.0).astype(np.float32, copy=False)
    return out


def pad_frames(frames: Floats, num_frames: int = WINDOW_FRAMES) -> Floats:
    """Pad raw frames with silence to `num_frames`. Raise `AudioError` if there are more."""
    missing = num_frames - len(frames)
    if missing < 0:
        raise AudioError(f"{len(frames)} frames do not fit a window of {num_frames}")
    return np.pad(frames, ((0, missing), (0, 0)), constant_values=SILENCE) if missing else frames


def window_features(samples: Floats, num_mels: int, seconds: float = WINDOW_SECONDS) -> Floats:
    """Return the model input [frames, num_mels] of one window of sound, padded with silence to `seconds`.

    It equals the output of `WhisperFeatureExtractor`, but only frames that touch sound are computed.
    """
    num_frames = check_window(samples, seconds)
    sounding = min(num_frames * HOP, len(samples) + FFT)  # long enough that the mirrored end is silence
    frames = log_mel(np.pad(samples, (0, sounding - len(samples))), num_mels)
    return normalize(pad_frames(frames, num_frames))


def check_window(samples: Floats, seconds: float) -> int:
    """Return the number of frames of a window. Raise `AudioError` if the sound is longer."""
    num_frames = round(seconds * FRAMES_PER_SECOND)
    if len(samples) > num_frames * HOP:
        raise AudioError(f"{len(samples) / SPEECH_RATE:.2f} s of sound do not fit a window of {seconds:g} s")
    return num_frames


@cache
def _hann() -> NDArray[np.float64]:
    return 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(FFT) / FFT)


def _frames(padded: Floats, num_frames: int, num_mels: int) -> Floats:
    """Return raw frames of an already padded signal: frame i reads padded[160 i : 160 i + 400]."""
    out = np.empty((num_frames, num_mels), np.float32)
    if not num_frames:
        return out
    spans = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:num_frames]
    filters = mel_filters(num_mels).astype(np.float32)
    for start in range(0, num_frames, _BLOCK):
        # The spectrum needs float64: under a loud band, float32 would drown a quiet one 8 decades below.
        spectrum = np.fft.rfft(spans[start : start + _BLOCK] * _hann(), axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        out[start : start + _BLOCK] = np.log2(np.maximum(power @ filters, np.float32(FLOOR))) * _LOG10_OF_2
    return out
