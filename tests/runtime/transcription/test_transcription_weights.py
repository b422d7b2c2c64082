"""Real speech through real weights: words, times, silence, live sessions, beside openai-whisper on the same weights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import soundfile

from antiphon import AsyncEngine, Engine
from antiphon.engine.telemetry import StepRecord
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript
from antiphon.runtime.frontend.streams import LiveSession
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint
from support.models.openai_whisper import interpret_alignment, openai_model
from support.sound.sounds import wav_bytes
from support.sound.speech import JFK_TEXT, RATE, jfk, librivox_clips, normalize_words, word_error_rate
from support.waiting import wait_until

pytestmark = [pytest.mark.weights, pytest.mark.slow]


MODEL = "whisper-tiny.en"
NUM_CLIPS = 2  # in the short form


@pytest.fixture(scope="module")
def tiny() -> Iterator[Engine]:
    with Engine(MODEL, kv_bytes=256 << 20) as engine:
        yield engine


@pytest.fixture(scope="module")
def tiny_int8() -> Iterator[Engine]:
    with Engine(MODEL, kv_bytes=256 << 20, quantize="int8") as engine:
        yield engine


@pytest.fixture(scope="module")
def recordings(soak: bool) -> list[tuple[np.ndarray, str]]:
    """Kennedy's sentence and clips of a book, with their words."""
    found = [(jfk(), JFK_TEXT), *librivox_clips()][: None if soak else 1 + NUM_CLIPS]
    return [(soundfile.read(path, dtype="float32")[0], text) for path, text in found]


@pytest.fixture(scope="module")
def transcripts(tiny: Engine, recordings: list[tuple[np.ndarray, str]]) -> list[Transcript]:
    """Transcripts of the recordings, made at once."""
    done = tiny.transcribe_all([sound for sound, _ in recordings], words=True)
    tiny._loop.call(tiny._core.check_integrity).result()
    assert tiny.figures()[MODEL]["blocks_owned"] == 0
    return done


def test_jfk_word_for_word(tiny: Engine, transcripts: list[Transcript]) -> None:
    transcript = tiny.transcribe(jfk(), beams=3)
    for found in (transcripts[0], transcript):
        assert normalize_words(found.text) == normalize_words(JFK_TEXT)
        assert found.language == "en" and found.duration == 11.0


def test_real_speech_beside_openai_whisper(
    transcripts: list[Transcript], recordings: list[tuple[np.ndarray, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more errors than openai-whisper makes with the same weights; its words are within 60 ms of ours."""
    import whisper

    interpret_alignment(monkeypatch)
    reference = openai_model(open_checkpoint(resolve(MODEL).path))
    reference.set_alignment_heads(whisper._ALIGNMENT_HEADS["tiny.en"])
    ours = theirs = 0.0
    differences: list[float] = []
    for (sound, text), transcript in zip(recordings, transcripts, strict=True):
        told = reference.transcribe(sound, word_timestamps=True, fp16=False, language="en")
        ours += word_error_rate(text, transcript.text)
        theirs += word_error_rate(text, told["text"])
        words = [word for segment in told["segments"] for word in segment["words"]]
        if [normalize_words(w["word"]) for w in words] == [normalize_words(w.text) for w in transcript.words]:
            for word, own in zip(words, transcript.words, strict=True):
                differences += [abs(word["start"] - own.start), abs(word["end"] - own.end)]
    assert ours <= theirs + 1e-9, (ours, theirs)
    assert len(differences) >= 40 and np.median(differences) <= 0.06


def quiet_sounds(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Silence, noises, tones and music-like chords of some seconds."""
    source = np.random.default_rng(3)
    for index in range(count):
        seconds = (4, 11, 31)[index % 3]
        time = np.arange(seconds * RATE) / RATE
        level = (0.001, 0.02, 0.3)[index // 6 % 3]
        kind = ("silence", "white", "brown", "tone", "chord", "clicks")[index % 6]
        if kind == "silence":
            sound = np.zeros(len(time))
        elif kind == "white":
            sound = source.standard_normal(len(time)) * level
        elif kind == "brown":
            walk = np.cumsum(source.standard_normal(len(time)))
            sound = (walk - np.linspace(walk[0], walk[-1], len(walk))) / np.abs(walk).max() * level
        elif kind == "tone":
            sound = np.sin(2 * np.pi * (200 + 97 * index) * time) * level
        elif kind == "chord":
            notes = [110.0 * 2 ** (step / 12) for step in (0, 4, 7, 12)]
            beat = 0.5 * (1 + np.sign(np.sin(2 * np.pi * 2 * time)))
            sound = sum(np.sin(2 * np.pi * note * time) for note in notes) / 4 * beat * level
        else:
            sound = np.zeros(len(time))
            sound[:: RATE // 2] = level
        yield f"{kind}-{index}", np.asarray(sound, np.float32)


@pytest.mark.parametrize("form", ["tiny", "tiny_int8"])
def test_no_sentence_is_invented(form: str, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(form)
    said = {name: engine.transcribe(sound).text for name, sound in quiet_sounds(20)}
    assert not {name: text for name, text in said.items() if text}


def test_in_int8_the_words_are_the_same(
    tiny_int8: Engine, transcripts: list[Transcript], recordings: list[tuple[np.ndarray, str]]
) -> None:
    done = tiny_int8.transcribe_all([sound for sound, _ in recordings])
    assert normalize_words(done[0].text) == normalize_words(JFK_TEXT)
    errors = [
        sum(word_error_rate(text, own.text) for (_, text), own in zip(recordings, found, strict=True))
        for found in (done, transcripts)
    ]
    assert errors[0] <= errors[1] + 1e-9


def test_live_session_says_what_the_file_says(tiny: Engine, transcripts: list[Transcript]) -> None:
    sound = soundfile.read(jfk(), dtype="float32")[0]
    updates: list[LiveUpdate] = []
    with tiny.listen(updates.append, interval=3.0) as session:
        for start in range(0, len(sound), RATE // 2):
            session.push(sound[start : start + RATE // 2])
        live = session.finish(timeout=300)
    assert "".join(update.text for update in updates).strip() == live.text
    assert word_error_rate(transcripts[0].text, live.text) <= 0.05
    assert live.segments and live.segments[0].start < 1.0 and live.duration == 11.0
    figures = tiny.figures()[MODEL]
    assert (figures["running"], figures["blocks_owned"]) == (0, 0)


def is_idle(session: LiveSession, heard: int) -> bool:
    """Whether a session has heard so many samples and made every hypothesis of them that is due."""
    call = session._call
    windows = call._windows
    if windows.track.end < heard or call._job is not None or windows.closed:
        return False
    return windows.open_start is None or windows.track.end - max(call._seen, windows.open_start) < call._interval


def test_the_last_hypothesis_as_a_draft_changes_no_update() -> None:
    """Each piece of sound is heard alone, so that both sessions make the same hypotheses."""
    sound = soundfile.read(jfk(), dtype="float32")[0][: 8 * RATE]
    found: dict[str, list[LiveUpdate]] = {}
    steps: dict[str, list[StepRecord]] = {}
    for speculate in ("off", "ngram"):
        updates = found[speculate] = []
        with Engine(MODEL, kv_bytes=256 << 20, speculate=speculate) as engine:
            with engine.listen(updates.append, interval=2.0, temperatures=(0.0,)) as session:
                for start in range(0, len(sound), 2 * RATE):
                    session.push(sound[start : start + 2 * RATE])
                    wait_until(partial(is_idle, session, start + 2 * RATE), "every hypothesis that is due")
                session.finish(timeout=300)
            steps[speculate] = [step for step in engine.step_records() if step.model == MODEL]
    assert found["ngram"] == found["off"] and len(found["off"]) > 2
    assert sum(step.drafted_tokens for step in steps["ngram"]) > 0 == sum(step.drafted_tokens for step in steps["off"])
    assert len(steps["ngram"]) < len(steps["off"])


def test_a_live_session_goes_on_when_its_updates_are_no_longer_read() -> None:
    sound = soundfile.read(jfk(), dtype="float32")[0]

    async def run() -> Transcript:
        async with AsyncEngine(MODEL, kv_bytes=64 << 20) as engine:
            session = await engine.listen(interval=4.0)
            for start in range(0, len(sound), RATE):
                session.push(sound[start : start + RATE])
            async for _ in session:
                break
            return await asyncio.wait_for(session.finish(), 120)

    assert word_error_rate(JFK_TEXT, asyncio.run(run()).text) <= 0.1


def test_stereo_of_opposite_phase_is_transcribed(tiny: Engine) -> None:
    sound = soundfile.read(jfk(), dtype="float32")[0]
    transcript = tiny.transcribe(wav_bytes(np.stack([sound, -sound], axis=1)))
    assert normalize_words(transcript.text) == normalize_words(JFK_TEXT)


def test_in_sequence_the_words_are_the_same(tiny: Engine) -> None:
    transcript = tiny.transcribe(jfk(), sequential=True)
    assert normalize_words(transcript.text) == normalize_words(JFK_TEXT)


def test_language_detection_and_translation() -> None:
    with Engine("whisper-base", kv_bytes=512 << 20) as engine:
        transcript = engine.transcribe(jfk())
    assert transcript.language == "en" and transcript.language_probability > 0.9
    assert normalize_words(transcript.text) == normalize_words(JFK_TEXT)
