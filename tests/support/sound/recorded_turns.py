"""Real spoken turns of four people, and dialogues joined from them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from antiphon.audio.decode import decode
from antiphon.weights.catalog.catalog import Package
from support.sound.speech import JFK_SPEECH, JFK_TEXT, RATE, Floats, jfk, librivox_clips
from support.text.vocabularies import package_files

CALL_PACKAGE = Package("pip", "pyannote-audio", "4.0.7")
CALL_SHA256 = "852ea15c4d85bc34773e618267603ffca6a521669a74d33742692cc67fc700d6"
CALL_MEMBER = "pyannote/audio/sample/sample.wav"
#: Turns of a telephone call during which the other side is silent: speaker, start and end in seconds, words.
CALL_TURNS = (
    ("diane", 8.43, 9.81, "Oh, hello. I didn't know you were there."),
    ("diane", 12.54, 14.19, "This is Diane in New Jersey."),
    ("sheila", 14.44, 17.78, "And I'm Sheila in Texas, originally from Chicago."),
    ("diane", 20.17, 21.48, "I'm in New Jersey now though."),
    ("sheila", 21.93, 23.94, "Well, there isn't that much difference."),
    ("diane", 28.44, 29.99, "Oh, I don't hear that in New Jersey now."),
)
#: Seconds of sound kept around the annotated borders of a sentence.
MARGIN = 0.05
#: Maximum decibels below the loudest 10 ms frame at which a frame counts as speech.
SPEECH_DECIBELS = 25.0
FRAME = RATE // 100
#: Minimum decibels below a turn's loudest frame at a gap between words, where a pause may be inserted.
GAP_DECIBELS = 20.0


@dataclass(frozen=True)
class Clip:
    """A whole sentence, cut as its package annotates it. Its energy places the speech from sample `start` to `end`."""

    name: str
    speaker: str
    text: str
    sound: Floats
    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / RATE


@dataclass(frozen=True)
class SpokenTurn:
    """Clip in a dialogue. `start` and `end` of its speech and of each inserted pause are sample positions."""

    clip: Clip
    start: int
    end: int
    pauses: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Dialogue:
    sound: Floats
    turns: tuple[SpokenTurn, ...]


def call() -> Path:
    """Return the path of half a minute of a telephone call between two women, 16 kHz."""
    return package_files(CALL_PACKAGE, CALL_SHA256, [CALL_MEMBER])[CALL_MEMBER]


@cache
def recorded_turns() -> tuple[Clip, ...]:
    """Return the twelve sentences, sorted by name."""
    found = [_clip("jfk", "kennedy", JFK_TEXT, jfk(), JFK_SPEECH[0][0] - MARGIN, JFK_SPEECH[-1][1] + MARGIN)]
    for path, text in librivox_clips():
        start, end = (float(line.split()[0]) for line in path.with_suffix(".lab").read_text().splitlines()[:2])
        found.append(_clip(f"austen-{path.stem[-4:]}", "reader", text, path, start - MARGIN, end + MARGIN))
    for number, (speaker, start, end, text) in enumerate(CALL_TURNS, 1):
        found.append(_clip(f"call-{number}", speaker, text, call(), start, end))
    return tuple(sorted(found, key=lambda clip: clip.name))


def tuning_turns() -> tuple[Clip, ...]:
    """Return every second sentence: sizes and thresholds are tuned on these."""
    return recorded_turns()[0::2]


def held_out_turns() -> tuple[Clip, ...]:
    """Return the other sentences: nothing is tuned on these."""
    return recorded_turns()[1::2]


def _clip(name: str, speaker: str, text: str, path: Path, start: float, end: float) -> Clip:
    sound = decode(path, rate=RATE).values[round(start * RATE) : round(end * RATE)]
    loud = np.nonzero(_decibels(sound) >= _decibels(sound).max() - SPEECH_DECIBELS)[0]
    return Clip(name, speaker, text, sound, int(loud[0]) * FRAME, int(loud[-1] + 1) * FRAME)


def _decibels(sound: Floats) -> np.ndarray:
    """Return the level of each frame in decibels."""
    frames = sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)
    return 10 * np.log10((frames**2).mean(1) + 1e-12)


def room_tone(length: int, clip: Clip, seed: int) -> Floats:
    """Return noise as loud as the quietest twentieth of a clip: silence in the same room."""
    level = 10 ** (max(-65.0, float(np.percentile(_decibels(clip.sound), 5))) / 20)
    return (level * np.random.default_rng(seed).standard_normal(length)).astype(np.float32)


def word_gap(clip: Clip) -> int | None:
    """Return the quietest sample position in the middle third of the speech, or None if it is not between words."""
    first, last = (clip.start + (clip.end - clip.start) * share // 3 for share in (1, 2))
    levels = _decibels(clip.sound)
    smooth = np.convolve(levels, np.ones(3) / 3, "same")[first // FRAME : last // FRAME]
    index = int(smooth.argmin())
    return first + index * FRAME + FRAME // 2 if smooth[index] <= levels.max() - GAP_DECIBELS else None


def dialogue(
    clips: Sequence[Clip],
    count: int,
    *,
    seed: int = 0,
    pause: float = 0.6,
    gap: float = 3.0,
    snr: float | None = 20.0,
) -> Dialogue:
    """Join `count` turns in random order, with `gap` seconds between turns; speakers alternate if possible.

    Every second turn has a pause of `pause` seconds inserted between two of its words. `snr` is the signal-to-noise
    ratio of white noise over the whole dialogue, in decibels relative to the speech's mean power; None for no noise.
    """
    source = random.Random(seed)
    pieces: list[Floats] = [room_tone(RATE, clips[0], seed)]
    turns: list[SpokenTurn] = []
    position, speaker = RATE, ""
    waiting: list[Clip] = []
    for number in range(count):
        waiting = waiting or source.sample(list(clips), len(clips))
        clip = next((clip for clip in waiting if clip.speaker != speaker), waiting[0])
        waiting.remove(clip)
        speaker = clip.speaker
        cut = word_gap(clip) if number % 2 else None
        length = 0 if cut is None else round(pause * RATE)
        split = len(clip.sound) if cut is None else cut
        pieces += [clip.sound[:split], room_tone(length, clip, seed + number), clip.sound[split:]]
        pauses = () if cut is None else ((position + cut, position + cut + length),)
        turns.append(SpokenTurn(clip, position + clip.start, position + clip.end + length, pauses))
        pieces.append(room_tone(round(gap * RATE), clip, seed + count + number))
        position += len(clip.sound) + length + len(pieces[-1])
    sound = np.concatenate(pieces)
    if snr is not None:
        speech = np.concatenate([sound[turn.start : turn.end] for turn in turns])
        level = float(np.sqrt((speech.astype(np.float64) ** 2).mean())) * 10 ** (-snr / 20)
        sound = sound + (level * np.random.default_rng(seed).standard_normal(len(sound))).astype(np.float32)
    return Dialogue(sound, tuple(turns))
