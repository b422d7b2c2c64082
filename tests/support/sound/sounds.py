"""Generated sounds (tones, noise, silence, chords) and measures to compare two sounds."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def wav_bytes(samples: Floats, rate: int = 16_000) -> bytes:
    """Encode samples as a 16-bit WAV file."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV")
    return file.getvalue()


def tone(seconds: float, hertz: float = 440.0, rate: int = 16_000, level: float = 0.3) -> Floats:
    moments = np.arange(round(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * hertz * moments)).astype(np.float32)


def silence(seconds: float, rate: int = 16_000) -> Floats:
    return np.zeros(round(seconds * rate), np.float32)


def noise(seconds: float, rate: int = 16_000, level: float = 0.1, seed: int = 0) -> Floats:
    """Return white noise."""
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * rate))).astype(np.float32)


def coloured_noise(seconds: float, *, exponent: float, rate: int = 16_000, level: float = 0.1, seed: int = 0) -> Floats:
    """Return noise whose power falls with frequency to the power of `exponent`: 1 is pink, 2 is brown.

    The spectrum is flat below 20 Hz.
    """
    count = round(seconds * rate)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    bins = np.maximum(np.arange(len(spectrum), dtype=np.float64), 20.0 * count / rate)
    spectrum = spectrum / bins ** (exponent / 2)
    spectrum[0] = 0.0
    samples = np.fft.irfft(spectrum, count)
    return (samples * level / np.sqrt((samples**2).mean())).astype(np.float32)


def chords(seconds: float, rate: int = 16_000, level: float = 0.1, seed: int = 0) -> Floats:
    """Return music-like sound: half-second chords of decaying harmonics."""
    source = np.random.default_rng(seed)
    out = np.zeros(round(seconds * rate), np.float32)
    length = rate // 2
    moments = np.arange(length) / rate
    for start in range(0, len(out), length):
        root = 110.0 * 2 ** (source.integers(0, 24) / 12)
        for ratio in (1.0, 1.26, 1.5):
            for harmonic in (1, 2, 3):
                wave = np.exp(-3 * moments) * np.sin(2 * np.pi * root * ratio * harmonic * moments) / harmonic
                out[start : start + length] += (level * wave[: len(out) - start]).astype(np.float32)
    return out


def lag_and_ratio(found: Floats, wanted: Floats) -> tuple[int, float]:
    """Return the delay of `found` in samples, and its signal-to-noise ratio in dB with the delay removed."""
    size = 1 << (len(found) + len(wanted)).bit_length()
    product = np.fft.irfft(np.fft.rfft(found, size) * np.conj(np.fft.rfft(wanted, size)), size)
    lag = int(np.argmax(product))
    lag = lag - size if lag > size // 2 else lag
    moved = found[lag:] if lag >= 0 else np.pad(found, (-lag, 0))
    count = min(len(moved), len(wanted))
    error = float(np.sum((moved[:count] - wanted[:count]).astype(np.float64) ** 2))
    return lag, 10 * float(np.log10(np.sum(wanted[:count].astype(np.float64) ** 2) / max(error, 1e-20)))
