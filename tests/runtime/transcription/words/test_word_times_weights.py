"""Times of words and cues in real speech with pauses, music and noise, beside faster-whisper on the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from antiphon import Engine
from antiphon.runtime.calls.transcript import Transcript
from antiphon.weights.catalog.resolve import resolve
from support.sound.programme import programme
from support.sound.sounds import Floats, silence
from support.sound.speech import RATE, jfk, joined_recording, librivox_clips, normalize_words, trimmed_clips

pytestmark = [pytest.mark.weights, pytest.mark.slow]

MODEL = "whisper-tiny.en"
#: Seconds of silence after each part.
PAUSES = (30.0, 2.5, 0.0)


@pytest.fixture(scope="module")
def tiny() -> Iterator[Engine]:
    with Engine(MODEL, kv_bytes=256 << 20) as engine:
        yield engine


def read(path: object) -> Floats:
    sound: Floats = soundfile.read(path, dtype="float32")[0]
    return sound


@pytest.fixture(scope="module")
def interrupted() -> tuple[Floats, float]:
    """Forty seconds of speech, thirty of silence, a sentence; and where that begins."""
    clips = [read(path) for path, _ in librivox_clips()]
    first = np.concatenate([read(jfk()), *clips[:4], read(jfk())[: round(7.9 * RATE)]])
    sound = np.concatenate([first, silence(30.0), clips[4]])
    return sound, (len(sound) - len(clips[4])) / RATE


def assert_orderly(transcript: Transcript) -> None:
    for parts in (transcript.words, transcript.segments):
        assert all(before.end <= after.start for before, after in pairwise(parts))
        assert all(part.start < part.end for part in parts)
    assert all(word.end - word.start <= 2.0 for word in transcript.words)


@pytest.mark.parametrize("words", [False, True])
def test_no_cue_stretches_over_removed_silence(tiny: Engine, interrupted: tuple[Floats, float], words: bool) -> None:
    sound, begin = interrupted
    transcript = tiny.transcribe(sound, words=words)
    assert_orderly(transcript)
    assert "amiable himself" in transcript.segments[-1].text
    assert transcript.segments[-1].start >= begin - 0.5
    assert transcript.segments[-2].end <= begin - 30.0 + 0.5
    assert bool(transcript.words) == words


def test_in_sequence_no_word_is_long_or_goes_back(tiny: Engine, interrupted: tuple[Floats, float]) -> None:
    transcript = tiny.transcribe(interrupted[0], words=True, sequential=True)
    assert transcript.words
    assert_orderly(transcript)


def test_words_of_a_programme_are_in_the_clips_that_say_them(tiny: Engine) -> None:
    """Clips under music and noise, between pauses; `benchmarks/long_recording.py` makes longer ones."""
    made = programme(60.0, trimmed_clips(), seed=3)
    transcript = tiny.transcribe(made.samples, words=True)
    assert_orderly(transcript)
    assert made.errors(transcript.text) <= 0.1
    outside = [
        word
        for word in transcript.words
        if not any(word.start >= said.start - 0.5 and word.end <= said.end + 0.5 for said in made.utterances)
    ]
    assert not outside


def test_live_words_are_in_order(tiny: Engine, interrupted: tuple[Floats, float]) -> None:
    with tiny.listen(lambda _: None, interval=10.0, words=True) as session:
        session.push(interrupted[0][round(8.0 * RATE) : round(20.0 * RATE)])
        transcript = session.finish(timeout=300)
    assert transcript.words
    assert_orderly(transcript)


def test_words_beside_faster_whisper() -> None:
    """It is given each part alone, so that no silence has to be removed, and has to be guessed about."""
    from faster_whisper import WhisperModel

    reference = WhisperModel(str(resolve("whisper-base").path.parent), device="cpu", compute_type="float32")
    theirs: list[tuple[str, float, float]] = []
    pieces: list[Floats] = []
    offset = 0.0
    for seed, pause in enumerate(PAUSES, 7):
        sound, _ = joined_recording(5.0, seed)
        told, _ = reference.transcribe(sound, language="en", word_timestamps=True, beam_size=1)
        theirs += [(w.word, w.start + offset, w.end + offset) for segment in told for w in segment.words or ()]
        pieces += [sound, silence(pause)]
        offset += len(sound) / RATE + pause
    with Engine("whisper-base", kv_bytes=512 << 20) as engine:
        transcript = engine.transcribe(np.concatenate(pieces), language="en", words=True)
    assert_orderly(transcript)
    ours = [(word.text, word.start, word.end) for word in transcript.words]
    spelled = [[tuple(normalize_words(text)) for text, _, _ in words] for words in (ours, theirs)]
    differences = [
        abs(own - other)
        for first, second, count in SequenceMatcher(None, *spelled, autojunk=False).get_matching_blocks()
        for one, another in zip(ours[first : first + count], theirs[second : second + count], strict=True)
        for own, other in zip(one[1:], another[1:], strict=True)
    ]
    assert len(differences) >= 80
    assert np.median(differences) < 0.1 and max(differences) < 0.5
