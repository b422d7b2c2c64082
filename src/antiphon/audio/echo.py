"""An echo canceller, which removes our own played speech from a microphone's sound.

Played sound is known in advance, so nothing is delayed: a hop of the microphone's sound is cleaned with a filter and
a gain that were computed before it. Three steps:

- The delay from the speaker to the microphone is the peak of a whitened cross-correlation, found twice in a row.
- A short filter from this delay on follows the path, and its estimate of the echo is subtracted.
- The filter also estimates the echo that remains. Sound no louder than that is turned down to the noise of the room;
  louder sound is a person, and passes. Before the delay is known, an echo is assumed to have at most a quarter of the
  power of the played sound, and no more than the power heard since then allows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.echo_path import UNKNOWN_POWER, EchoPath, Powers, Samples, Spectra, find_delay, is_audible
from antiphon.audio.samples import SPEECH_RATE, Floats

HOP_SECONDS = 0.016
MAX_DELAY_SECONDS = 0.6
#: Length of the filter in hops, and seconds that it begins before the delay.
PARTITIONS = 6
LEAD_SECONDS = 0.003
#: Seconds of sound searched for the delay, hops between searches, and finds after which searches are RARER.
SEARCH_SECONDS = 0.512
SEARCH_HOPS = 4
CONFIRMED = 4
RARER = 4
#: Seconds of audible playback without a found delay after which no echo is assumed.
PATIENCE_SECONDS = 1.5
#: Power ratio to the expected remaining echo above which sound passes, and the minimum gain of other sound.
MARGIN = 4.0
FLOOR = 0.01
#: Factor of the mean power heard that bounds an echo before the delay is known.
UNEVEN = 2.0
#: Percentile of power, among the hops before playback, that is taken as the room's level. Noise of that level replaces
#: the echo: after perfect silence, detectors miss quiet speech.
QUIET_PERCENT = 20
#: Minimum share of the gain kept from one hop to the next, so that the ends of words pass.
HOLD = 0.85
_NUM_BANDS = 24


class PlaybackTimeline:
    """Played sound by time, in samples of the session. It is silent where nothing was played."""

    _SPARE = 1 << 16

    def __init__(self) -> None:
        self._start = 0
        self._length = 0
        self._samples: Floats = np.zeros(self._SPARE, np.float32)

    def put(self, samples: Floats, at: int) -> None:
        """Set the sound from sample `at` on. Discarded samples stay discarded."""
        skipped = max(0, self._start - at)
        samples, first = samples[skipped:], at + skipped - self._start
        end = first + len(samples)
        if end > len(self._samples):
            grown = np.zeros(2 * end, np.float32)
            grown[: self._length] = self._samples[: self._length]
            self._samples = grown
        self._samples[first:end] = samples
        self._length = max(self._length, end)

    def cut(self, at: int) -> None:
        """Remove the sound from sample `at` on."""
        kept = min(self._length, max(0, at - self._start))
        self._samples[kept : self._length] = 0.0
        self._length = kept

    def forget(self, before: int) -> None:
        """Discard sound before a sample that will not be read again."""
        dropped = before - self._start
        if dropped >= self._SPARE:
            kept = self._samples[dropped : self._length]
            self._samples = np.concatenate([kept, np.zeros(self._SPARE, np.float32)])
            self._start, self._length = before, len(kept)

    def between(self, start: int, end: int) -> Samples:
        out = np.zeros(end - start)
        first, last = max(start, self._start), min(end, self._start + self._length)
        if first < last:
            out[first - start : last - start] = self._samples[first - self._start : last - self._start]
        return out


class EchoGuard:
    """Removal of our own speech from the microphone's sound of one session; mono, both directions at one rate.

    Call `played` before cleaning the microphone's sound of that time. Results do not depend on how the sound is divided
    into calls. Sound is returned unchanged if nothing was played during it or shortly before.
    """

    def __init__(self, rate: int = SPEECH_RATE) -> None:
        self._rate = rate
        self._hop = round(HOP_SECONDS * rate)
        self._lead = round(LEAD_SECONDS * rate)
        self._max_delay = round(MAX_DELAY_SECONDS * rate)
        self._reach = self._max_delay + (PARTITIONS + 1) * self._hop
        self._timeline = PlaybackTimeline()
        self._is_cleaning = threading.Lock()
        self._changes: deque[Callable[[], None]] = deque()  # pending changes of the timeline
        self._position = 0  # samples cleaned
        self._hop_heard: Floats = np.zeros(self._hop, np.float32)
        self._heard: Floats = np.zeros(round(SEARCH_SECONDS / HOP_SECONDS) * self._hop, np.float32)
        self._bands = _bands(self._hop + 1)
        self._delay: int | None = None  # start of the path, in samples
        self._path = EchoPath(self._hop, PARTITIONS)
        self._is_echoless = False  # no echo was found in the last playback
        self._recent: Powers = np.zeros((self._max_delay // self._hop + 2, len(self._bands)))
        self._stop()

    def played(self, samples: Floats, at: float) -> None:
        """Announce samples that go to the speaker at `at`, in milliseconds of the microphone's sound."""
        self._change(partial(self._timeline.put, samples, self._sample(at)))

    def stopped(self, at: float) -> None:
        """Announce that playback ended at `at`, in milliseconds: later announced samples are not played."""
        self._change(partial(self._timeline.cut, self._sample(at)))

    def _change(self, change: Callable[[], None]) -> None:
        """Change the timeline now, or before the next hop if another thread is cleaning. Never waits."""
        self._changes.append(change)
        if self._is_cleaning.acquire(blocking=False):
            try:
                self._apply_changes()
            finally:
                self._is_cleaning.release()

    def _apply_changes(self) -> None:
        while self._changes:
            self._changes.popleft()()

    def _sample(self, milliseconds: float) -> int:
        return max(0, round(milliseconds * self._rate / 1000))

    def clean(self, samples: Floats) -> Floats:
        """Return the microphone's next samples, as many as given, without our own speech.

        May run in a thread, one call at a time.
        """
        with self._is_cleaning:
            self._apply_changes()
            return self._clean(samples)

    def _clean(self, samples: Floats) -> Floats:
        out = np.array(samples, np.float32)
        done = 0
        while done < len(out):
            offset = self._position % self._hop
            if not offset:
                self._begin_hop()
            count = min(self._hop - offset, len(out) - done)
            span, inside = slice(done, done + count), slice(offset, offset + count)
            self._hop_heard[inside] = out[span]
            if self._is_active:
                ramp, hush = self._ramp[inside], self._room * self._noise.standard_normal(count)
                out[span] = (out[span] - self._echo[inside]) * ramp + (1.0 - ramp) * hush
            self._position += count
            done += count
            if offset + count == self._hop:
                self._end_hop()
        return out

    # -- a hop --------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Reset the state: without recent playback, sound passes unchanged."""
        self._is_active = False
        self._gain = 1.0
        self._left: Powers = np.zeros(len(self._bands))
        self._rest: Powers = np.zeros(len(self._bands))
        self._candidate: int | None = None  # delay found by the last search
        self._finds = 0  # number of times the same delay was found twice in a row
        self._hops_played = 0
        self._hops_to_search = SEARCH_HOPS
        self._heard_power: Powers = np.zeros(len(self._bands))  # power per band since playback began
        # power per band of played sound whose echo must have arrived
        self._due_power: Powers = np.zeros(len(self._bands))
        #: Upper bound of the echo's power while its delay is unknown, relative to the played sound.
        self._unknown_power: Powers = np.full(len(self._bands), UNKNOWN_POWER)

    def _start(self) -> None:
        """Begin cleaning, with the room's level estimated from the sound heard before."""
        self._is_active = True
        powers = np.mean(self._heard.astype(np.float64).reshape(-1, self._hop) ** 2, axis=1)
        self._room = float(np.sqrt(np.percentile(powers, QUIET_PERCENT)))
        self._noise = np.random.default_rng(0)

    def _begin_hop(self) -> None:
        """Compute the echo and the gain of the next hop."""
        self._apply_changes()
        start, hop = self._position, self._hop
        self._timeline.forget(start - self._reach - len(self._heard) - hop)
        if not self._timeline.between(start - self._reach, start + hop).any():
            if self._is_active:
                self._stop()
            return
        if not self._is_active:
            self._start()
        self._recent = np.roll(self._recent, 1, axis=0)
        self._recent[0] = self._banded(np.fft.rfft(self._timeline.between(start - hop, start + hop)))
        self._echo, rest = np.zeros(hop), np.zeros(len(self._bands))
        if self._delay is not None:
            self._echo = self._path.echo(self._reference(start, self._delay))
            rest = np.add.reduceat(self._path.rest, self._bands)
        if not self._finds and not self._is_echoless:
            rest = np.maximum(rest, self._unknown_power * self._recent.max(0))
        rest *= 0.5  # a spectrum spans two hops, this estimate one
        gain = self._next_gain(np.maximum(self._rest, rest))
        self._ramp = np.linspace(self._gain, gain, hop, endpoint=False)
        self._gain, self._rest = gain, rest

    def _bound_echo(self) -> None:
        """Lower the bound of the echo: sound played longer ago than the maximum delay has already been heard."""
        self._heard_power += 2.0 * self._left  # a played spectrum spans two hops, this one
        self._due_power += self._recent[-1]
        is_due = self._due_power > 0.0
        bound = np.divide(UNEVEN * self._heard_power, self._due_power, out=np.ones_like(self._left), where=is_due)
        self._unknown_power = np.minimum(self._unknown_power, bound)

    def _next_gain(self, rest: Powers) -> float:
        """Return the gain from the share of the last hop that exceeds the expected remaining echo."""
        total = self._left.sum()
        share = np.maximum(0.0, self._left - MARGIN * rest).sum() / total if total > 0.0 else 1.0
        opened = min(1.0, max(FLOOR, (share - 0.3) / 0.4))
        return float(max(opened, HOLD * self._gain) if self._finds else opened)

    def _end_hop(self) -> None:
        """Update the estimates with the hop just heard."""
        self._heard = np.concatenate([self._heard[self._hop :], self._hop_heard])
        if not self._is_active:
            return
        left = np.fft.rfft(np.concatenate([np.zeros(self._hop), self._hop_heard - self._echo]))
        self._left = self._banded(left)
        self._bound_echo()
        if self._delay is not None:
            self._path.adapt(left)
        self._hops_played += is_audible(self._timeline.between(self._position - self._hop, self._position))
        self._hops_to_search -= 1
        if self._hops_to_search <= 0:
            self._hops_to_search = SEARCH_HOPS * (1 if self._finds < CONFIRMED else RARER)
            self._search()

    def _reference(self, start: int, delay: int) -> Samples:
        return self._timeline.between(start - delay - self._hop, start - delay + self._hop)

    def _banded(self, spectrum: Spectra) -> Powers:
        power: Powers = np.add.reduceat(spectrum.real**2 + spectrum.imag**2, self._bands)
        return power

    # -- the delay ----------------------------------------------------------------------------------------------

    def _search(self) -> None:
        """Search for the delay, and accept one that is found twice in a row and lies outside the current path."""
        first = self._position - len(self._heard) - self._max_delay
        found = find_delay(self._heard.astype(np.float64), self._timeline.between(first, self._position))
        is_second = found is not None and self._candidate is not None and abs(found - self._candidate) < self._lead
        self._candidate = found
        if found is None or not is_second:
            if not self._finds and self._hops_played * HOP_SECONDS > PATIENCE_SECONDS:
                self._is_echoless = True
            return
        self._finds += 1
        self._is_echoless = False
        if self._delay is None or not 0 <= found - self._delay < PARTITIONS * self._hop // 2:
            self._delay, self._finds = max(0, found - self._lead), 1
            self._learn(self._delay)

    def _learn(self, delay: int) -> None:
        """Start a new path at the delay, trained on the sound heard recently."""
        self._path = EchoPath(self._hop, PARTITIONS)
        first = self._position - len(self._heard)
        for start in range(first, self._position, self._hop):
            left = self._heard[start - first : start - first + self._hop].astype(np.float64)
            left -= self._path.echo(self._reference(start, delay))
            self._path.adapt(np.fft.rfft(np.concatenate([np.zeros(self._hop), left])))


def _bands(bins: int) -> NDArray[np.int64]:
    """Return the first bin of each band: narrow bands first, wider ones above."""
    edges = np.unique(np.round(np.geomspace(4, bins, _NUM_BANDS)).astype(np.int64))
    return np.concatenate([np.zeros(1, np.int64), edges[:-1]])
