"""Destinations of answers: a speaker, or a recording with the answers at the times when a speaker would play them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from antiphon.audio.pcm import to_s16
from antiphon.audio.resample import Resampler, resample
from antiphon.audio.samples import SPEECH_RATE, Floats, RawFormat
from antiphon.audio.wav import header
from antiphon.cli.sound.audio_devices import audio_devices
from antiphon.cli.sound.sound_output import OutputFile
from antiphon.errors import AudioError

#: Samples per second of `FileOutput`'s recording and of the speaker.
RATE = 24_000


@dataclass(frozen=True)
class Played:
    """Part of a message's sound that had been heard when it was stopped."""

    item_id: str
    milliseconds: int


class AnswerOutput(Protocol):
    def begin(self) -> None:
        """Start the conversation's clock."""

    def hear(self, samples: Floats) -> None:
        """Take the person's sound (16 kHz), in order and without gaps."""

    def play(self, item_id: str, samples: Floats, rate: int) -> None:
        """Queue more of a message's sound, after the sound being played."""

    def stop(self) -> Played | None:
        """Stop and return the part that was heard; return None if everything had been played."""

    @property
    def is_playing(self) -> bool: ...

    def close(self) -> None: ...


class FileOutput:
    """Stereo WAV file of the conversation: the person on the left, answers on the right, as they would be played."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._file = OutputFile(str(path))
        self._clock = clock
        self._start: float | None = None
        self._heard: list[Floats] = []
        self._said: list[tuple[int, Floats]] = []  # each with its first sample's index
        self._end = 0  # index after the last sample to be played
        self._item: str | None = None  # the message played last
        self._lengths: dict[str, int] = {}  # samples by message
        self._rates: dict[str, Resampler] = {}

    @property
    def _now(self) -> int:
        return 0 if self._start is None else round((self._clock() - self._start) * RATE)

    @property
    def is_playing(self) -> bool:
        return self._end > self._now

    def begin(self) -> None:
        self._start = self._clock()

    def hear(self, samples: Floats) -> None:
        self._heard.append(samples)

    def play(self, item_id: str, samples: Floats, rate: int) -> None:
        samples = self._rates.setdefault(item_id, Resampler(rate, RATE)).push(np.asarray(samples, np.float32))
        at = max(self._end, self._now)
        self._said.append((at, samples))
        self._end = at + len(samples)
        self._item = item_id
        self._lengths[item_id] = self._lengths.get(item_id, 0) + len(samples)

    def stop(self) -> Played | None:
        now, unplayed = self._now, 0
        if self._end <= now or self._item is None:
            return None
        kept = []
        for at, samples in self._said:
            left = max(0, now - at)
            unplayed += max(0, len(samples) - left)
            kept.append((at, samples[:left]))
        self._said = [(at, samples) for at, samples in kept if len(samples)]
        self._end = now
        self._lengths[self._item] -= unplayed
        return Played(self._item, max(0, self._lengths[self._item]) * 1000 // RATE)

    def close(self) -> None:
        heard = np.concatenate([np.zeros(0, np.float32), *self._heard])
        left = resample(heard, SPEECH_RATE, RATE)
        sound = np.zeros((max(len(left), self._end), 2), np.float32)
        sound[: len(left), 0] = left
        for at, samples in self._said:
            sound[at : at + len(samples), 1] = samples
        self._file.write(header(RawFormat("s16le", RATE, 2), len(sound)))
        self._file.write(to_s16(sound.reshape(-1)).tobytes())
        self._file.close()


class SpeakerOutput:
    """Default speaker. `stop` takes effect within a block of some milliseconds."""

    def __init__(self) -> None:
        sounddevice = audio_devices("output")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, Floats]] = deque()
        self._item: str | None = None
        self._num_played = 0  # samples of the current item
        self._rates: dict[str, Resampler] = {}
        try:
            self._stream = sounddevice.OutputStream(
                samplerate=RATE, channels=1, dtype="float32", latency="low", callback=self._fill
            )
        except sounddevice.PortAudioError as error:
            raise AudioError(f"the speaker cannot be opened: {error}") from error

    def begin(self) -> None:
        self._stream.start()

    def hear(self, samples: Floats) -> None:
        pass

    @property
    def is_playing(self) -> bool:
        return bool(self._waiting)

    def play(self, item_id: str, samples: Floats, rate: int) -> None:
        samples = self._rates.setdefault(item_id, Resampler(rate, RATE)).push(np.asarray(samples, np.float32))
        with self._lock:
            if len(samples):
                self._waiting.append((item_id, samples))

    def stop(self) -> Played | None:
        with self._lock:
            if not self._waiting:
                return None
            item_id = self._waiting[0][0]
            self._waiting.clear()
            played = self._num_played if item_id == self._item else 0
        delay = round(float(self._stream.latency) * RATE)  # sound in the device's buffer is not heard yet
        return Played(item_id, max(0, played - delay) * 1000 // RATE)

    def _fill(self, block: Any, frames: int, *_: Any) -> None:
        """Fill a block with the next samples; called on the device's thread."""
        filled = 0
        with self._lock:
            while filled < frames and self._waiting:
                item_id, samples = self._waiting.popleft()
                if item_id != self._item:
                    self._item, self._num_played = item_id, 0
                part = samples[: frames - filled]
                block[filled : filled + len(part), 0] = part
                filled += len(part)
                self._num_played += len(part)
                if len(part) < len(samples):
                    self._waiting.appendleft((item_id, samples[len(part) :]))
        block[filled:, 0] = 0

    def close(self) -> None:
        self._stream.close()
