"""The path of an echo from a speaker to a microphone: its delay, and a filter that follows it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Assumed power of an unknown echo relative to the played sound.
UNKNOWN_POWER = 0.25

#: Share of the path kept from one hop to the next; this value follows a drift of 100 ppm between the two clocks.
_PERSISTENCE = 0.995
#: Minimum height of a correlation's peak, in standard deviations.
_MIN_PEAK = 8.0
#: Exponent by which the correlation flattens the spectrum: 1 flattens it fully.
_WHITENING = 0.8
#: Power below which played sound counts as silence.
_SILENCE = 1e-5

Samples = NDArray[np.float64]
Spectra = NDArray[np.complex128]
Powers = NDArray[np.float64]


def is_audible(played: Samples) -> bool:
    return float(np.mean(played**2)) > _SILENCE


def find_delay(heard: Samples, played: Samples) -> int | None:
    """Return the delay in samples from played sound to its echo in the heard sound, or None if it is unclear.

    Both end at the same time, and the maximum delay is the difference of their lengths.
    """
    longest = len(played) - len(heard)
    if not is_audible(played):
        return None
    size = _fast_length(len(played))
    product = np.fft.rfft(heard, size).conj() * np.fft.rfft(played, size)
    product /= np.abs(product) ** _WHITENING + 1e-12
    # heard[i] is an echo of played[i + longest - delay].
    by_delay = np.abs(np.fft.irfft(product, size)[: longest + 1][::-1])
    delay = int(np.argmax(by_delay))
    return delay if by_delay[delay] > _MIN_PEAK * np.sqrt(np.mean(by_delay**2)) else None


def _fast_length(length: int) -> int:
    """Return a length with small factors, at least `length`."""
    return min(base << max(0, (-(-length // base) - 1).bit_length()) for base in (8, 9, 10, 12, 15))


class EchoPath:
    """Filter in partitions of one hop each, adapted by a Kalman filter with a diagonal covariance.

    Call `echo`, then `adapt` for every hop. It converges in a fraction of a second, and holds still while a person
    speaks. Enzner and Vary, Signal Processing 86 (2006); Kuech et al., ICASSP 2014.
    """

    def __init__(self, hop: int, partitions: int) -> None:
        self._hop = hop
        shape = (partitions, hop + 1)
        self._weights: Spectra = np.zeros(shape, complex)
        self._uncertainty: Powers = np.full(shape, UNKNOWN_POWER)
        self._played: Spectra = np.zeros(shape, complex)
        self._power: Powers = np.zeros(shape)
        self._other: Powers | None = None  # power of sound other than the echo
        self._estimate: Spectra = np.zeros(hop + 1, complex)  # spectrum of the hop's estimated echo
        # product of the remaining sound and the estimate; power of the estimate
        self._likeness, self._loudness = 0j, 0.0
        #: Expected power of the hop's remaining echo, by bin.
        self.rest: Powers = np.zeros(hop + 1)

    def echo(self, played: Samples) -> Samples:
        """Return the estimated echo in the next hop; `played` is the sound of that hop and the one before it."""
        self._played = np.roll(self._played, 1, axis=0)
        self._power = np.roll(self._power, 1, axis=0)
        self._played[0] = np.fft.rfft(played)
        self._power[0] = _power(self._played[0])
        self.rest = (self._uncertainty * self._power).sum(0)
        echo = np.fft.irfft((self._weights * self._played).sum(0))
        echo[: self._hop] = 0.0
        self._estimate = np.fft.rfft(echo)
        return echo[self._hop :]

    def adapt(self, left: Spectra) -> None:
        """Adapt to the spectrum of the hop's remaining sound, which is preceded by a hop of zeros."""
        power = _power(left)
        self._other = power if self._other is None else 0.7 * self._other + 0.3 * power
        self._doubt(left)
        expected = (self._uncertainty * self._power).sum(0)
        gain = self._uncertainty / (expected + 2.0 * self._other + 1e-12)
        change = np.fft.irfft(gain * self._played.conj() * left, axis=1)
        change[:, self._hop :] = 0.0
        self._weights += np.fft.rfft(change, axis=1)
        keep = _PERSISTENCE**2
        self._uncertainty *= keep * (1.0 - 0.5 * gain * self._power)
        self._uncertainty += (1.0 - keep) * _power(self._weights)

    def _doubt(self, left: Spectra) -> None:
        """Raise the uncertainty of the weights if the remaining sound resembles the estimate: the path has changed."""
        self._likeness = 0.9 * self._likeness + 0.1 * complex(np.vdot(self._estimate, left))
        self._loudness = 0.9 * self._loudness + 0.1 * float(_power(self._estimate).sum())
        if self._loudness > 0.0:
            wrong = min(1.0, abs(self._likeness / self._loudness) ** 2)
            np.maximum(self._uncertainty, wrong * _power(self._weights), out=self._uncertainty)


def _power(spectrum: Spectra) -> Powers:
    power: Powers = spectrum.real**2 + spectrum.imag**2
    return power
