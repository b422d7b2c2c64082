"""Speech through the engine, on the real weights of the small voice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from antiphon.engine.request import Priority
from antiphon.errors import CheckpointError, EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.speech.account import IN_TIME, SpeechAccount
from antiphon.runtime.speech.call import MAX_UNREAD
from antiphon.runtime.speech.captions import to_srt
from antiphon.runtime.speech.seams import CLAUSE_PAUSE, SENTENCE_PAUSE, is_silent, sounding, trimmed
from antiphon.runtime.speech.text_feed import TextFeed
from antiphon.runtime.voices.book import VoiceBook, language_tag
from support.waiting import PATIENCE_SECONDS, wait_until

TEXT = (
    "Hello there, my good friend. On March 3rd, 2024, Dr. Smith paid $9.99 for 5 kg of apples. Isn't that nice?\n\n"
    "This is a new paragraph, with a few more words in it."
)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("hibari-6m")


@pytest.fixture(scope="module")
def engine(loaded: LoadedModel) -> Iterator[Engine]:
    with Engine(loaded, kv_bytes=1 << 20) as engine:
        yield engine


@pytest.fixture(scope="module")
def spoken(engine: Engine) -> list[SpeechChunk]:
    return list(engine.speak(TEXT))


# -- pieces that need no weights ----------------------------------------------------------------------------------


def test_silence_is_cut_and_faded() -> None:
    rate = 24_000
    tone = 0.4 * np.sin(np.arange(rate // 2) * 0.1).astype(np.float32)
    hum = 1e-4 * np.ones(rate // 2, np.float32)
    sound = np.concatenate([hum, tone, hum])
    assert sounding(sound, rate)[0] == pytest.approx(rate // 2, abs=100)
    cut, offset = trimmed(sound, rate, 0.2)
    assert len(cut) / rate == pytest.approx(0.06 + 0.5 + 0.2, abs=0.01)
    assert cut[0] == 0.0 and cut[-1] == 0.0
    start, end = sounding(cut, rate)
    np.testing.assert_array_equal(cut[start:end], sound[start + offset : end + offset])
    longer, _ = trimmed(sound, rate, 0.9)  # more pause than the model made
    assert len(longer) / rate == pytest.approx(0.06 + 0.5 + 0.9, abs=0.01)
    assert is_silent(hum) and is_silent(np.zeros(0, np.float32)) and not is_silent(sound)
    assert is_silent(np.full(9, np.nan, np.float32))


def test_voices_are_found_and_mixed(tmp_path: Path) -> None:
    tables = {name: np.random.default_rng(i).random((5, 4), np.float32) for i, name in enumerate(("af_one", "bm_two"))}
    files = {}
    for name, table in tables.items():
        files[f"voices/{name}.bin"] = tmp_path / f"{name}.bin"
        table.tofile(tmp_path / f"{name}.bin")
    book = VoiceBook.beside(files, 4, "m")
    assert book.names == ["af_one", "bm_two"]
    assert [(v.language, v.gender) for v in book.info()] == [("en-us", "female"), ("en-gb", "male")]
    style = book.style(book.parse("af_one:0.75+bm_two:0.25"), 2)
    np.testing.assert_allclose(style, 0.75 * tables["af_one"][2] + 0.25 * tables["bm_two"][2], rtol=1e-6)
    np.testing.assert_allclose(book.style(book.parse("bm_two"), 99), tables["bm_two"][4])
    assert book.parse("af_one+bm_two").weights == {"af_one": 0.5, "bm_two": 0.5}
    for bad in ("zz", "af_one:x", "af_one:0", "", "+", "af_one+" * 20 + "af_one"):
        with pytest.raises(InvalidRequestError):
            book.parse(bad)
    (tmp_path / "af_one.bin").write_bytes(b"\0" * 20)
    with pytest.raises(CheckpointError, match="rows of 4"):
        VoiceBook.beside(files, 4, "m").style(book.parse("af_one"), 1)
    with pytest.raises(CheckpointError, match="no voices"):
        VoiceBook.beside({}, 4, "m")


def test_options_are_checked() -> None:
    for bad in ({"speed": 0.1}, {"speed": float("nan")}, {"seed": -1}, {"timeout": 0.0}):
        with pytest.raises(InvalidRequestError):
            SpeechOptions(**bad)
    assert language_tag("en") == language_tag("EN_us") == "en-us" and language_tag("en-GB") == "en-gb"
    assert language_tag("pt_BR") == "pt-br" and language_tag("fr-FR") == "fr"
    with pytest.raises(InvalidRequestError, match="'tlh'; choose one of: en-us, en-gb, es"):
        language_tag("tlh")


def test_text_is_fed_once() -> None:
    feed, heard = TextFeed(), []
    feed.push("a")
    feed.listen(heard.append)
    feed.push("b")
    feed.finish()
    feed.finish()
    assert heard == ["a", "b", None]
    with pytest.raises(InvalidRequestError):
        feed.push("c")
    with pytest.raises(InvalidRequestError):
        feed.listen(heard.append)


# -- the engine ---------------------------------------------------------------------------------------------------


@pytest.mark.weights
def test_clauses_leave_in_order_with_their_words(spoken: list[SpeechChunk]) -> None:
    assert [chunk.text for chunk in spoken] == [
        "Hello there, my good friend.",
        "On March 3rd, 2024, Dr. Smith paid $9.99 for 5 kg of apples.",
        "Isn't that nice?",
        "This is a new paragraph, with a few more words in it.",
    ]
    at = 0.0
    for chunk in spoken:
        assert chunk.start == pytest.approx(at)
        at += chunk.seconds
        times = [time_ for word in chunk.words for time_ in (word.start, word.end)]
        assert times == sorted(times) and chunk.start <= times[0] and times[-1] <= at
    assert [word.text for word in spoken[1].words][:4] == ["On", "March 3rd, 2024", "Dr.", "Smith"]
    assert 5.0 < at < 25.0


@pytest.mark.weights
def test_seams_are_not_heard(spoken: list[SpeechChunk]) -> None:
    sound = np.concatenate([chunk.samples for chunk in spoken])
    steps = np.abs(np.diff(sound))
    inside = np.percentile(steps, 99)
    seam = 0
    for chunk in spoken[:-1]:
        seam += len(chunk.samples)
        around = steps[seam - 24 : seam + 24]
        assert around.max() < inside
        assert np.abs(sound[seam - 1 : seam + 1]).max() < 1e-3
    pauses = []
    for chunk, pause in zip(spoken, (SENTENCE_PAUSE, SENTENCE_PAUSE), strict=False):
        _, end = sounding(chunk.samples, chunk.rate)
        pauses.append((len(chunk.samples) - end) / chunk.rate)
        assert pauses[-1] == pytest.approx(pause, abs=0.02)
    assert pauses[0] > CLAUSE_PAUSE


@pytest.mark.weights
def test_figures(engine: Engine) -> None:
    synthesis = engine.speak(TEXT)
    with pytest.raises(EngineError, match="not come to its end"):
        _ = synthesis.stats
    sound = synthesis.wait()
    stats = synthesis.stats
    assert stats.audio_seconds == pytest.approx(len(sound) / synthesis.rate)
    assert 0 < stats.time_to_first_audio < stats.processing_seconds
    assert stats.real_time_factor == pytest.approx(stats.processing_seconds / stats.audio_seconds)
    assert stats.num_clauses == 4 and stats.num_characters == len(TEXT) and stats.num_phonemes > 100
    assert stats.worst_deficit >= 0.0 and stats.skipped == ()
    engine._loop.call(lambda: None).result()  # the record is kept by the engine's thread, in its turn
    record = engine._core.telemetry.speeches[-1]
    assert record.id == synthesis.id and record.audio_seconds == stats.audio_seconds


@pytest.mark.weights
def test_speed_and_seed(engine: Engine) -> None:
    slow, fast = (engine.speak("One two three four five six.", speed=speed).wait() for speed in (0.7, 1.6))
    assert len(slow) > 1.7 * len(fast)
    first, again, other = (engine.speak("Hello.", seed=seed).wait() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.weights
@pytest.mark.parametrize("speed", [0.25, 0.7, 1.25, 1.5, 2.0, 3.0, 4.0])
def test_sound_has_the_length_that_its_speed_asks_for(engine: Engine, speed: float) -> None:
    text = "On March third the committee met again. It was a bright cold day, and the clocks were striking thirteen."
    usual, other = (list(engine.speak(text, speed=asked)) for asked in (1.0, speed))
    lengths = [sum(chunk.seconds for chunk in chunks) for chunks in (usual, other)]
    assert lengths[0] / lengths[1] == pytest.approx(speed, rel=0.05)
    words = [[word for chunk in chunks for word in chunk.words] for chunks in (usual, other)]
    assert [word.text for word in words[0]] == [word.text for word in words[1]]
    for first, second in zip(*words, strict=True):
        assert second.start * speed == pytest.approx(first.start, abs=0.25 * max(1.0, speed) ** 0.5)
        assert second.end <= lengths[1] + 1e-6


@pytest.mark.weights
def test_text_may_be_appended_while_it_is_spoken(engine: Engine) -> None:
    feed = TextFeed()
    synthesis = engine.speak(feed)
    feed.push("The first sentence is he")
    feed.push("re. And ")
    first = next(synthesis)  # leaves although the text has not ended
    assert first.text == "The first sentence is here."
    feed.push("this is the second")
    feed.finish()
    assert [chunk.text for chunk in synthesis] == ["And this is the second"]

    is_heard = threading.Event()

    def slowly() -> Iterator[str]:
        yield "One thing. And "
        assert is_heard.wait(PATIENCE_SECONDS)
        yield "another thing."

    synthesis = engine.speak(slowly())
    assert next(synthesis).text == "One thing."
    is_heard.set()
    assert [chunk.text for chunk in synthesis] == ["And another thing."]


@pytest.mark.weights
def test_what_cannot_be_spoken_is_told(engine: Engine) -> None:
    for text in ("", "  \n ", "😀😀", "… !!", "\u200b\ufeff\u0000"):
        with pytest.raises(InvalidRequestError, match=r"no text|nothing in the text"):
            engine.speak(text).wait()
    with pytest.raises(InvalidRequestError, match="漢字"):
        engine.speak("漢字").wait()
    with pytest.raises(InvalidRequestError, match="no voice 'nobody'"):
        engine.speak("Hello.", voice="nobody")
    with pytest.raises(InvalidRequestError, match="'tlh'"):
        engine.speak("Hello.", language="tlh")
    with pytest.raises(InvalidRequestError, match="does not know"):
        engine.speak("Hello.", pronunciations={"hello": "%%"})
    with pytest.raises(InvalidRequestError, match="loudness"):
        engine.speak("Hello.", loudness=3)
    with pytest.raises(ModelNotFoundError):
        engine.speak("Hello.", model="nobody")
    synthesis = engine.speak("Hello 漢字 world.")
    assert len(synthesis.wait()) > 10_000 and synthesis.stats.skipped == ("漢字",)

    def broken() -> Iterator[str]:
        yield "Hello. "
        raise RuntimeError("lost")

    with pytest.raises(EngineError, match="lost"):
        engine.speak(broken()).wait()


@pytest.mark.weights
def test_own_pronunciations(engine: Engine) -> None:
    plain = engine.speak("gif").wait()
    own = engine.speak("gif", pronunciations={"GIF": "ʤˈɪf"}).wait()
    inline = engine.speak("[gif](/ʤˈɪf/)").wait()
    np.testing.assert_array_equal(own, inline)
    assert len(plain) != len(own) or not np.array_equal(plain, own)


@pytest.mark.weights
def test_a_reader_who_leaves_ends_the_work(engine: Engine) -> None:
    synthesis = engine.speak("This is a sentence. " * 5000)  # 100,000 characters
    assert next(synthesis).seconds > 0.5
    synthesis.close()
    synthesis._call._thread.join(PATIENCE_SECONDS)
    assert not synthesis._call._thread.is_alive()
    figures = lambda: engine.figures()["hibari-6m"]  # noqa: E731
    wait_until(lambda: not figures()["running"] + figures()["waiting"], "an idle engine", seen=figures)
    assert synthesis._call._account.num_samples < 600 * 24_000, "all of it would be an hour and more"
    waiting = engine.speak(TextFeed())  # and one that waits for text
    waiting.close()
    waiting._call._thread.join(PATIENCE_SECONDS)
    assert not waiting._call._thread.is_alive()


@pytest.mark.weights
def test_closing_the_engine_ends_a_synthesis_that_waits_for_text(loaded: LoadedModel) -> None:
    with Engine(loaded, kv_bytes=1 << 20) as engine:
        waiting = engine.speak(TextFeed())
    with pytest.raises(EngineError, match="the engine is closed"):
        next(waiting)
    waiting._call._thread.join(PATIENCE_SECONDS)
    assert not waiting._call._thread.is_alive()


@pytest.mark.weights
def test_an_unread_synthesis_pauses(engine: Engine) -> None:
    synthesis = engine.speak("Yes. " * 14)
    unread = synthesis._inbox._queue
    wait_until(lambda: unread.qsize() == MAX_UNREAD, f"{MAX_UNREAD} unread chunks", seen=unread.qsize)
    made = synthesis._call._account.num_samples
    assert len(synthesis.wait()) > made


@pytest.mark.weights
def test_a_paced_synthesis_keeps_step_with_its_listener(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.runtime.speech.call.FAR_AHEAD", 0.2)
    asked: list[Priority] = []
    add = engine._loop.add
    monkeypatch.setattr(
        engine._loop, "add", lambda requests: asked.extend(r.priority for r in requests) or add(requests)
    )
    synthesis = engine.speak("This is one sentence. " * 5, paced=True)
    synthesis.wait()
    stats = synthesis.stats
    listened = stats.processing_seconds - stats.time_to_first_audio
    assert listened > 0.5 * stats.audio_seconds  # not made all at once
    assert asked[0] is Priority.NORMAL and Priority.HIGH in asked[1:]  # nearly dry, it goes first


def test_what_can_be_made_before_a_listener_has_heard_all() -> None:
    now = 10.0
    account = SpeechAccount(lambda: now)
    assert account.room(0) is None
    now = 12.0
    account.add(
        SpeechChunk(np.zeros(40, np.float32), 10, 0.0, "", ()), 50, submitted=10.0, made=12.0
    )  # 4 s of sound in 2 s
    assert account.room(0) == round(IN_TIME * 4 / 0.04)
    assert account.room(50) == round(IN_TIME * (4 + 4 - 2) / 0.04)
    now = 20.0  # four seconds too late
    assert account.room(0) == 0


@pytest.mark.weights
@pytest.mark.parametrize("batch_invariant", [False, True])
def test_a_paced_synthesis_cuts_sentences_that_would_come_too_late(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch, batch_invariant: bool
) -> None:
    monkeypatch.setattr("antiphon.runtime.speech.account.IN_TIME", 1e-4)  # as if the machine were busy
    text = "Here it begins, my friends. About twelve hundred people paid nine dollars each to hear the concert."
    with Engine(loaded, kv_bytes=1 << 20, batch_invariant=batch_invariant) as engine:
        plain, paced = ([chunk.text for chunk in engine.speak(text, paced=paced)] for paced in (False, True))
    assert " ".join(plain) == " ".join(paced) == text
    assert (len(paced) == len(plain)) == batch_invariant


@pytest.mark.weights
def test_long_words_are_cut_to_what_the_model_takes(engine: Engine) -> None:
    chunks = list(engine.speak("[x](/" + "ba " * 60 + "/) " * 4))
    assert sum(chunk.seconds for chunk in chunks) > 5


@pytest.mark.weights
def test_a_deadline_ends_it(engine: Engine) -> None:
    with pytest.raises(EngineError, match="deadline"):
        engine.speak("This is a sentence. " * 500, timeout=0.05).wait()


@pytest.mark.weights
def test_many_at_once_are_each_what_they_are_alone(engine: Engine) -> None:
    texts = ["One.", "Number two is a bit longer than that.", "Three, then.", "And at last the fourth one, it seems."]
    alone = [engine.speak(text).wait() for text in texts]
    together: dict[int, np.ndarray] = {}

    def run(index: int) -> None:
        together[index] = engine.speak(texts[index], priority=Priority.HIGH if index else Priority.NORMAL).wait()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, sound in enumerate(alone):
        np.testing.assert_allclose(together[index], sound, atol=1e-4)


@pytest.mark.weights
def test_captions(spoken: list[SpeechChunk]) -> None:
    text = to_srt(spoken)
    blocks = text.strip().split("\n\n")
    assert blocks[0].startswith("1\n00:00:00,") and blocks[0].endswith("Hello there, my good friend.")
    assert " --> " in blocks[1] and len(blocks) >= 4


@pytest.mark.weights
def test_for_asyncio(loaded: LoadedModel) -> None:
    async def letters() -> AsyncIterator[str]:
        for piece in ("Hello to", " you. How ", "are you?"):
            yield piece
            await asyncio.sleep(0.01)

    async def failing() -> AsyncIterator[str]:
        yield "Hello. "
        raise KeyError("gone")

    async def main() -> None:
        async with AsyncEngine(loaded, kv_bytes=1 << 20) as engine:
            synthesis = await engine.speak(letters())
            texts = [chunk.text async for chunk in synthesis]
            assert texts == ["Hello to you.", "How are you?"]
            assert synthesis.stats.num_clauses == 2
            whole = await (await engine.speak("Hello to you.")).wait()
            assert len(whole) > 10_000
            with pytest.raises(InvalidRequestError):
                await engine.speak("Hi.", voice="nobody")
            with pytest.raises(KeyError):
                await (await engine.speak(failing())).wait()
            early = await engine.speak("This is a sentence. " * 500)
            async for _ in early:
                break
            await early.aclose()

    asyncio.run(main())
