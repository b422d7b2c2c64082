"""Transcription through the engine on a tiny random Whisper: batching, memory, ends, options. Words are noise here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from antiphon import Engine, SamplingParams
from antiphon.audio.samples import Floats
from antiphon.audio.segments import SpeechSpan, Window
from antiphon.errors import AudioError, EngineError, InvalidRequestError, UnsupportedError
from antiphon.runtime.calls.detectors import Detectors
from antiphon.runtime.calls.transcript import Transcript
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.transcription import windows
from antiphon.runtime.transcription.detection.voice_activity import SpeechWindow
from antiphon.runtime.transcription.transcriber import SoundChunks
from antiphon.runtime.transcription.window.decoding import Attempt
from antiphon.runtime.transcription.window.segments import stretches
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer
from support.models.tiny_whisper import MULTILINGUAL, tiny_whisper
from support.waiting import wait_until

RATE = 16_000
#: Random weights satisfy no guard, so only one attempt is made.
ONCE = dict(temperatures=(0.0,), no_speech_limit=1.0)


def fixed_windows(chunks: Iterable[np.ndarray], max_seconds: float, detectors: Detectors) -> Iterator[SpeechWindow]:
    """Stands for voice activity: windows of ten seconds, all of it speech."""
    samples = np.concatenate(list(chunks))
    for start in range(0, len(samples), 10 * RATE):
        piece = samples[start : start + 10 * RATE]
        window = Window((SpeechSpan(start / RATE, (start + len(piece)) / RATE),))
        yield SpeechWindow(window, piece, np.full(max(1, len(piece) // 512), 0.0, np.float32), 0.032)


def sounds(*seconds: float) -> list[np.ndarray]:
    source = np.random.default_rng(7)
    return [(source.standard_normal(round(length * RATE)) * 0.1).astype(np.float32) for length in seconds]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return tiny_whisper()


@pytest.fixture(autouse=True)
def no_voice_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "speech_windows", fixed_windows)
    monkeypatch.setattr(windows, "MIN_VOICE", 0.0)


def settled(engine: Engine | AsyncEngine) -> dict[str, int]:
    """Return the model's figures once nothing runs, with its books checked."""
    names = ("tiny-whisper", "tiny-whisper encoder")
    in_use = lambda: [engine.figures()[name][key] for name in names for key in ("running", "waiting")]  # noqa: E731
    wait_until(lambda: not any(in_use()), "an idle engine", seen=engine.figures)
    engine._loop.call(engine._core.check_integrity).result()
    return engine.figures()["tiny-whisper"]


def tokens_of(transcript: Transcript) -> list[tuple[int, ...]]:
    return [segment.tokens for segment in transcript.segments]


def test_ragged_recordings_batched_equal_each_alone(loaded: LoadedModel) -> None:
    recordings = sounds(3, 11, 0.5, 21)
    with Engine(loaded, kv_bytes=64 << 20, batch_invariant=True) as engine:
        together = engine.transcribe_all(recordings, **ONCE)
        assert settled(engine)["blocks_owned"] == 0
        alone = [engine.transcribe(sound, **ONCE) for sound in recordings]
    assert [tokens_of(one) for one in together] == [tokens_of(one) for one in alone]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.stats.num_windows for one in together] == [1, 2, 1, 3]
    assert all(one.duration == len(sound) / RATE for one, sound in zip(together, recordings, strict=True))


@pytest.mark.long("half a minute of sound is transcribed three times")
@pytest.mark.parametrize("options", [{}, {"beams": 3}, {"temperatures": (0.7,), "best_of": 3}, {"words": True}])
def test_little_memory_gives_the_same(loaded: LoadedModel, options: dict[str, object]) -> None:
    """With room for two windows' cross blocks at a time, requests wait, are preempted, and end as they would have."""
    recording = sounds(32)[0]
    wanted = ONCE | options
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        expected = engine.transcribe(recording, **wanted)
    cross_bytes = 500 * 2 * 2 * 32 * 2
    little = dict(kv_bytes=int(2.6 * cross_bytes), slab_bytes=4096, prefix_caching=False)
    for preemption in ("recompute", "swap"):
        with Engine(loaded, **little, preemption=preemption) as engine:
            got = engine.transcribe(recording, **wanted)
            figures = settled(engine)
        assert figures["blocks_owned"] == 0 and figures["waiting"] == 0
        assert tokens_of(got) == tokens_of(expected), preemption
        if options.get("words"):
            words = got.words
            assert words == expected.words and words
            assert all(word.start <= word.end for word in words)
            assert [word.start for word in words] == sorted(word.start for word in words)


def test_closing_the_iterator_frees_everything(loaded: LoadedModel) -> None:
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        events = engine.transcribe_events(sounds(95)[0], **ONCE)
        next(events)
        events.close()
        figures = settled(engine)
        assert (figures["running"], figures["waiting"], figures["blocks_owned"]) == (0, 0, 0)
        assert engine.figures()["tiny-whisper encoder"]["waiting"] == 0
        assert engine.transcribe(sounds(1)[0], **ONCE).duration == 1


def test_a_deadline_ends_it_with_the_cause(loaded: LoadedModel) -> None:
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        with pytest.raises(EngineError, match="deadline"):
            engine.transcribe(sounds(60)[0], timeout=0.01, **ONCE)
        assert settled(engine)["blocks_owned"] == 0


def test_segments_come_in_order_and_make_the_text(loaded: LoadedModel) -> None:
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        *progress, transcript = engine.transcribe_events(sounds(47)[0], **ONCE)
        settled(engine)
        traced = engine._core.telemetry.transcripts[-1]
    assert isinstance(transcript, Transcript)
    assert "".join(event.text for event in progress) == transcript.text
    assert [event.processed_seconds for event in progress] == [10, 20, 30, 40, 47]
    starts = [segment.start for segment in transcript.segments]
    assert starts == sorted(starts) and transcript.segments[-1].end <= 47
    stats = transcript.stats
    assert stats.audio_seconds == 47 and stats.num_windows == 5 and stats.time_to_first_text is not None
    assert 0 < stats.time_to_first_text <= stats.processing_seconds
    assert traced.audio_seconds == 47 and traced.real_time_factor == pytest.approx(stats.real_time_factor)


def test_in_sequence_each_window_is_given_the_text_before_it(loaded: LoadedModel) -> None:
    recording = sounds(35)[0]
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        transcript = engine.transcribe(recording, voice_activity=False, prompt="names", **ONCE)
        assert settled(engine)["blocks_owned"] == 0
    assert transcript.stats.num_windows >= 3
    assert transcript.duration == 35


def test_language_is_detected_by_the_first_window_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tiny_whisper(MULTILINGUAL)
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        detected = engine.transcribe(sounds(25)[0], **ONCE)
        given = engine.transcribe(sounds(25)[0], language=detected.language, **ONCE)
        plain = engine.transcribe(sounds(5)[0], timestamps=False, translate=True, **ONCE)
    assert 0 < detected.language_probability < 1 and given.language_probability == 1
    assert tokens_of(detected) == tokens_of(given)
    assert plain.task == "translate" and len(plain.segments) == 1


def test_what_is_refused(loaded: LoadedModel) -> None:
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        for sound, message in (
            (np.zeros(0, np.float32), "no samples"),
            (np.full(16000, np.nan, np.float32), "finite"),
            (np.zeros((2, 100), np.float32), "one row"),
            (b"", "empty"),
            (b"not a sound at all" * 50, "."),
        ):
            with pytest.raises(AudioError, match=message):
                engine.transcribe(sound)
        for options, message in (
            (dict(translate=True), "only English"),
            (dict(language="fr"), "only English"),
            (dict(beams=0), "beams is 0"),
            (dict(shout=True), "shout"),
            (dict(temperatures=()), "at least one"),
        ):
            with pytest.raises(InvalidRequestError, match=message):
                engine.transcribe(sounds(1)[0], **options)
        with pytest.raises(UnsupportedError, match="tiny-whisper is a transcription model; use `antiphon transcribe`"):
            engine.generate("Once", model="tiny-whisper")
        assert settled(engine)["blocks_owned"] == 0


@pytest.mark.long("four chats of 400 tokens, alone and beside a transcription")
def test_beside_chat_both_say_what_they_say_alone(loaded: LoadedModel, tiny_llama: Path) -> None:
    """One arena, one loop: chats stream while recordings are transcribed, and every model's steps come between."""
    recording, prompts = sounds(95)[0], [[index, 5, 9] for index in range(4)]
    params, longer = (SamplingParams(max_tokens=count, ignore_eos=True) for count in (400, 4000))
    with Engine(loaded, kv_bytes=64 << 20, batch_invariant=True) as engine:
        chat = engine.load(str(tiny_llama)).name
        alone = engine.transcribe(recording, **ONCE)
        said = engine.generate(prompts, params, model=chat)
        events = engine.transcribe_events(recording, **ONCE)
        next(events)  # now other windows are on their way
        begun = engine._core.telemetry.num_steps
        streams = [engine.stream(prompt, longer, model=chat) for prompt in prompts]  # beside it to its end
        *_, together = events
        answers: list[list[int]] = [[] for _ in streams]
        for stream, answer in zip(streams, answers, strict=True):
            while len(answer) < 400:
                answer += next(stream).token_ids
        for stream in streams:
            stream.close()
        assert settled(engine)["blocks_owned"] == 0
        order = [step.model for step in engine._core.telemetry.steps if step.index >= begun]
    assert isinstance(together, Transcript)
    assert tokens_of(together) == tokens_of(alone)
    assert [answer[:400] for answer in answers] == [answer.token_ids for answer in said]
    assert sum(before != after for before, after in pairwise(order)) >= 10, "the models take turns"


@pytest.mark.parametrize("kind", [KeyError, SystemExit])
def test_a_source_that_raises_ends_the_transcription(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """The caller's own error for a reader in its own thread; for another, an error of ours with that cause."""

    def broken(*_: object, **__: object) -> SoundChunks:
        def pieces() -> Iterator[Floats]:
            yield sounds(12)[0]
            raise kind("the disk is gone")

        return SoundChunks(pieces())

    monkeypatch.setattr("antiphon.runtime.frontend.engine.open_sound", broken)
    monkeypatch.setattr("antiphon.runtime.frontend.async_engine.open_sound", broken)
    with Engine(loaded, kv_bytes=64 << 20) as engine, pytest.raises(kind, match="the disk is gone"):
        engine.transcribe("any", **ONCE)

    async def run() -> None:
        async with AsyncEngine(loaded, kv_bytes=64 << 20) as engine:
            stream = await engine.transcribe("any", **ONCE)
            with pytest.raises(EngineError, match="the disk is gone") as raised:
                await asyncio.wait_for(stream.wait(), 60)
            assert isinstance(raised.value.__cause__, kind)

    asyncio.run(run())


def test_async_events_and_leaving_early(loaded: LoadedModel) -> None:
    async def run() -> None:
        async with AsyncEngine(loaded, kv_bytes=64 << 20) as engine:
            whole = await (await engine.transcribe(sounds(22)[0], **ONCE)).wait()
            assert whole.stats.num_windows == 3
            stream = await engine.transcribe(sounds(95)[0], **ONCE)
            async for _ in stream:
                break
            await stream.aclose()
            assert await asyncio.to_thread(lambda: settled(engine)["blocks_owned"]) == 0
            with pytest.raises(InvalidRequestError):
                await (await engine.transcribe(sounds(1)[0], translate=True)).wait()

    asyncio.run(run())


def test_text_that_repeats_itself_is_doubted_only_if_nobody_could_have_said_it() -> None:
    options = TranscriptionOptions()
    said = Attempt(tuple(range(90)), "la la", 0.0, -0.05, 2.6, 0.0, "en", 1.0, is_complete=True, seconds=28.0)
    assert not said.is_doubtful(options)
    assert replace(said, is_complete=False).is_doubtful(options)  # it went on until its length ran out
    assert replace(said, seconds=10.0).is_doubtful(options)  # nine tokens a second
    assert replace(said, avg_logprob=-1.2).is_doubtful(options)
    assert not replace(said, is_complete=False, compression_ratio=2.3).is_doubtful(options)


def test_segments_have_the_log_probabilities_of_their_tokens(loaded: LoadedModel) -> None:
    assert isinstance(loaded.tokenizer, WhisperTokenizer)
    whisper = loaded.tokenizer.whisper
    stamp = whisper.first_timestamp
    said = (stamp, 1, 2, stamp + 50, stamp + 50, 3, stamp + 100, stamp + 110, 4, 5)
    logprobs = tuple(-float(index) for index in range(len(said)))
    attempt = Attempt(said, "", 0.0, -0.05, 1.0, 0.0, "en", 1.0, True, 28.0, logprobs)
    found = stretches(attempt, whisper, 28.0)
    assert [stretch.tokens for stretch in found] == [said[:4], said[4:7], said[7:]]
    assert [stretch.logprobs for stretch in found] == [logprobs[:4], logprobs[4:7], logprobs[7:]]
    assert [(stretch.start, stretch.end) for stretch in found] == [(0.0, 1.0), (1.0, 2.0), (2.2, 28.0)]


def test_drawn_log_probabilities_reach_the_transcript(loaded: LoadedModel) -> None:
    with Engine(loaded, kv_bytes=64 << 20) as engine:
        for beams in (1, 3):
            transcript = engine.transcribe(sounds(6)[0], **ONCE, beams=beams)
            for segment in transcript.segments:
                assert len(segment.logprobs) == len(segment.tokens) > 0
                assert all(logprob <= 0 for logprob in segment.logprobs)
                assert segment.logprobs != (0.0,) * len(segment.tokens)
