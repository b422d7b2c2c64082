"""Recording like a radio programme: clips with known words between pauses, with music and noise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from support.sound.sounds import Floats, chords, noise
from support.sound.speech import RATE, in_random_order, word_error_rate

#: Probability and range of seconds of each kind of pause: within a talk, between talks, and without a speaker.
PAUSES = ((0.6, 0.2, 1.2), (0.25, 1.6, 5.0), (0.15, 8.0, 40.0))
#: Range of decibels between a clip and softer music or noise under it.
UNDER = (12.0, 25.0)
#: Range of decibels between speech and softer music or noise in a pause.
BETWEEN = (3.0, 35.0)
LEVEL = 0.08


@dataclass(frozen=True)
class Utterance:
    """Clip in the recording; times in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Programme:
    """Recording at 16 kHz with the words spoken in it."""

    samples: Floats
    utterances: tuple[Utterance, ...]

    @property
    def text(self) -> str:
        return " ".join(utterance.text for utterance in self.utterances)

    def errors(self, transcript: str) -> float:
        """Return the word error rate of a transcript."""
        return word_error_rate(self.text, transcript)


def programme(seconds: float, clips: Sequence[tuple[Floats, str]], seed: int = 0) -> Programme:
    """Join at least `seconds` of clips in random order, none twice in a row; equal arguments give equal sound."""
    source = random.Random(seed)
    pieces: list[Floats] = []
    utterances: list[Utterance] = []
    total = 0
    for clip, text in in_random_order(clips, source):
        if total >= seconds * RATE:
            break
        spoken = clip * np.float32(LEVEL * 10 ** (source.uniform(-8, 4) / 20) / _level(clip))
        spoken = spoken + _backdrop(len(clip), _level(spoken), UNDER, source)
        utterances.append(Utterance(total / RATE, (total + len(clip)) / RATE, text))
        (_, low, high) = source.choices(PAUSES, [share for share, _, _ in PAUSES])[0]
        pause = _backdrop(round(source.uniform(low, high) * RATE), LEVEL, BETWEEN, source)
        pieces += [spoken, pause]
        total += len(spoken) + len(pause)
    return Programme(np.clip(np.concatenate(pieces), -1, 1).astype(np.float32), tuple(utterances))


def _backdrop(length: int, speech: float, decibels: tuple[float, float], source: random.Random) -> Floats:
    """Return silence, noise or music that fades in and out, quieter than `speech` by a random number of decibels."""
    kind = source.choice(("silence", "white", "pink", "music"))
    seed = source.randrange(1 << 30)
    level = speech * 10 ** (-source.uniform(*decibels) / 20)
    seconds = length / RATE
    if kind == "silence":
        return np.zeros(length, np.float32)
    if kind == "music":
        sound = chords(seconds, RATE, seed=seed)
    else:
        sound = noise(seconds, RATE, seed=seed)
        if kind == "pink":
            spectrum = np.fft.rfft(sound)
            spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
            sound = np.fft.irfft(spectrum, len(sound)).astype(np.float32)
    sound = np.resize(sound, length) * np.float32(level / max(_level(sound), 1e-9))
    ramp = min(RATE // 10, length // 2)
    edge = np.linspace(0, 1, ramp, dtype=np.float32)
    sound[:ramp] *= edge
    sound[length - ramp :] *= edge[::-1]
    return sound


def _level(samples: Floats) -> float:
    return float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))
