"""OpenAI's own client hears and speaks: every format, streamed and whole, beside a chat, with nothing left behind."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import numpy as np
import openai
import pytest

from antiphon import Engine
from antiphon.audio.decode import decode
from antiphon.audio.samples import RawFormat
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server
from support.sound.heard_words import is_heard
from support.sound.sounds import silence, wav_bytes
from support.sound.speech import JFK_TEXT, jfk, word_error_rate
from support.waiting import wait_until

pytestmark = [pytest.mark.weights, pytest.mark.slow]

SPOKEN = "The quick brown fox jumps over the lazy dog."
LONG = " ".join([SPOKEN] * 200)
SPEECH: dict[str, Any] = {"model": "hibari-6m", "input": SPOKEN, "voice": "heart"}


@pytest.fixture(scope="module")
def sound(chat_folder: Path, model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in ("whisper-tiny.en", "hibari-6m", "english-phonemes", "whisper-base", "smollm2-135m"):
        model_path(name)  # it is here from now on
    references = ("whisper-tiny.en", "hibari-6m", str(chat_folder))
    config = ServerConfig(
        models=tuple(ModelSpec.of(reference) for reference in references),
        aliases={"whisper-1": "whisper-tiny.en"},
        memory_bytes=4 << 30,
        offline=True,
    )
    with running_server(config, {"kv_bytes": 128 << 20, "quantize": "auto"}) as running:
        yield running


@pytest.fixture
def client(sound: RunningServer) -> Iterator[openai.OpenAI]:
    with sound.openai() as made:
        yield made.with_options(timeout=300)


def stamps(subtitles: str, point: str) -> list[tuple[float, float]]:
    """The times of every cue, in seconds."""

    def seconds(text: str) -> float:
        hours, minutes, rest = text.replace(point, ".").split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(rest)

    lines = [line.split(" --> ") for line in subtitles.splitlines() if " --> " in line]
    return [(seconds(start), seconds(end)) for start, end in lines]


def test_transcription_in_every_format(client: openai.OpenAI) -> None:
    create = client.audio.transcriptions.create
    plain = create(model="whisper-1", file=jfk())
    assert is_heard(JFK_TEXT, plain.text)
    assert plain.usage is not None and plain.usage.type == "duration" and plain.usage.seconds == 11.0
    assert create(model="whisper-1", file=jfk(), response_format="text") == plain.text + "\n"
    both = create(
        model="default-transcription",
        file=jfk(),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        extra_body={"timings": True},
    )
    assert (both.text, both.language, both.duration) == (plain.text, "english", 11.0)
    assert both.segments is not None and both.words is not None and both.usage is not None
    assert "".join(segment.text for segment in both.segments).strip() == plain.text
    assert [word.word for word in both.words] == plain.text.split()
    assert all(a.start <= a.end <= b.start + 0.011 for a, b in zip(both.words, both.words[1:], strict=False))
    timings = both.usage.model_extra["timings"]  # type: ignore[index]
    assert 0 < timings["time_to_first_text"] <= timings["processing"]
    assert timings["real_time_factor"] == pytest.approx(timings["processing"] / 11.0)
    times = [(segment.start, segment.end) for segment in both.segments]
    for format, point in (("srt", ","), ("vtt", ".")):
        subtitles = create(model="whisper-1", file=jfk(), response_format=format)  # type: ignore[call-overload]
        assert isinstance(subtitles, str) and subtitles.startswith("WEBVTT") == (format == "vtt")
        found = stamps(subtitles, point)  # words move both ends of segments to the speech
        assert [start for start, _ in found] == pytest.approx([start for start, _ in times], abs=0.5)
        assert [end for _, end in found] == pytest.approx([end for _, end in times], abs=1.0)
    words = create(
        model="whisper-1", file=jfk(), response_format="verbose_json", timestamp_granularities=["word"], language="en"
    )
    assert words.segments is None and words.words == both.words


def test_streamed_transcription_of_a_long_recording(client: openai.OpenAI) -> None:
    """More than a window of speech: the first text comes by itself."""
    file = wav_bytes(np.concatenate([decode(jfk()).values] * 3))
    *deltas, done = client.audio.transcriptions.create(model="whisper-1", file=("a.wav", file), stream=True)
    assert {event.type for event in deltas} == {"transcript.text.delta"}
    assert done.type == "transcript.text.done" and done.usage is not None
    assert "".join(event.delta for event in deltas) == done.text  # type: ignore[union-attr]
    assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens
    assert word_error_rate(" ".join([JFK_TEXT] * 3), done.text) < 0.1


def test_log_probabilities_of_a_transcript(client: openai.OpenAI) -> None:
    create = client.audio.transcriptions.create
    details: dict[str, Any] = dict(model="whisper-1", file=jfk(), include=["logprobs"])
    answer = create(**details, response_format="json")
    assert answer.logprobs is not None
    assert "".join(entry.token or "" for entry in answer.logprobs).strip() == answer.text
    for entry in answer.logprobs:
        assert entry.bytes is not None and bytes(map(int, entry.bytes)).decode() == entry.token
        assert entry.logprob is not None and entry.logprob <= 0
    # The mean that verbose_json reports includes timestamps and the end.
    verbose = create(model="whisper-1", file=jfk(), response_format="verbose_json")
    mean = sum(entry.logprob or 0.0 for entry in answer.logprobs) / len(answer.logprobs)
    assert verbose.segments is not None and mean == pytest.approx(verbose.segments[0].avg_logprob, abs=0.2)
    *deltas, done = create(**details, stream=True)
    streamed = [entry for event in deltas for entry in event.logprobs or ()]  # type: ignore[union-attr]
    assert [entry.logprob for entry in streamed] == [entry.logprob for entry in answer.logprobs]
    assert done.type == "transcript.text.done" and done.logprobs is not None
    assert [entry.token for entry in done.logprobs] == [entry.token for entry in answer.logprobs]
    assert create(model="whisper-1", file=jfk()).logprobs is None
    with pytest.raises(openai.BadRequestError, match="logprobs go with response_format json, which is text"):
        create(**details, response_format="text")
    with pytest.raises(openai.BadRequestError, match="include"):
        create(**(details | {"include": ["other"]}))


def test_silence_has_no_text(client: openai.OpenAI) -> None:
    file = ("a.wav", wav_bytes(silence(3)))
    assert client.audio.transcriptions.create(model="whisper-1", file=file).text == ""
    events = list(client.audio.transcriptions.create(model="whisper-1", file=file, stream=True))
    assert [(event.type, getattr(event, "text", None)) for event in events] == [("transcript.text.done", "")]


def test_translation(client: openai.OpenAI) -> None:
    """By a multilingual model that nobody configured: it is loaded for the request."""
    answer = client.audio.translations.create(model="whisper-base", file=jfk(), response_format="verbose_json")
    assert answer.model_extra is not None and answer.model_extra["task"] == "translate"
    assert is_heard(JFK_TEXT, answer.text)


def test_two_transcriptions_beside_a_chat(sound: RunningServer, client: openai.OpenAI) -> None:
    chat = dict(model="tiny-chat", messages=[{"role": "user", "content": "hello"}], temperature=0, max_tokens=50)
    alone = client.chat.completions.create(**chat).choices[0].message.content  # type: ignore[call-overload]

    def transcribe() -> str:
        return client.audio.transcriptions.create(model="whisper-1", file=jfk()).text

    with ThreadPoolExecutor(2) as pool:
        hearing = [pool.submit(transcribe) for _ in range(2)]
        wait_until(lambda: len(sound.serving.requests) == 2 and sound.figures()["running"], "the transcriptions to run")
        stream = client.chat.completions.create(**chat, stream=True)  # type: ignore[call-overload]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert not any(one.done() for one in hearing)  # the chat did not wait for them
        heard = [one.result(300) for one in hearing]
    assert text == alone
    assert all(is_heard(JFK_TEXT, one) for one in heard)
    sound.wait_until_idle()


def test_a_verbose_stream_has_segments_words_and_progress(client: openai.OpenAI) -> None:
    file = wav_bytes(np.concatenate([decode(jfk()).values] * 3))
    form = {"model": "whisper-1", "stream": "true", "response_format": "verbose_json"}
    more = {"timestamp_granularities[]": ["word", "segment"]}
    answer = client._client.post("audio/transcriptions", data={**form, **more}, files={"file": ("a.wav", file)})
    *deltas, done = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
    assert deltas and done["type"] == "transcript.text.done" and done["duration"] == 33.0
    assert [segment["id"] for delta in deltas for segment in delta["segments"]] == list(range(len(done["segments"])))
    for name in ("segments", "words"):
        assert [one for delta in deltas for one in delta[name]] == done[name]
    seconds = [delta["seconds"] for delta in deltas]
    assert seconds == sorted(seconds) and 0 < seconds[0] < 33 and seconds[-1] == pytest.approx(33, abs=3)


def test_a_transcription_in_the_background_is_the_same(sound: RunningServer, client: openai.OpenAI) -> None:
    file = wav_bytes(np.concatenate([decode(jfk()).values] * 3))
    form = {"model": "whisper-1", "response_format": "verbose_json"}
    url = f"{sound.url}/v1/audio/transcriptions"
    whole = httpx.post(url, data=form, files={"file": ("a.wav", file)}, timeout=300).json()
    started = httpx.post(url, data={**form, "background": "true"}, files={"file": ("a.wav", file)}, timeout=300).json()
    seen: list[dict[str, Any]] = []

    def has_ended() -> bool:
        seen.append(httpx.get(f"{url}/{started['id']}", timeout=60).json())
        return seen[-1]["status"] not in ("queued", "in_progress")

    wait_until(has_ended, "the transcript", seen=lambda: seen[-1])
    assert seen[-1]["status"] == "completed" and seen[-1]["result"] == whole
    done = [state["progress"]["seconds"] for state in seen]
    assert done == sorted(done) and seen[-1]["progress"] == {"seconds": 33.0, "duration": 33.0, "fraction": 1.0}


def test_speech_in_every_format(client: openai.OpenAI) -> None:
    """Each decodes back to what the embedded engine says, whole and as events."""
    with Engine("hibari-6m", kv_bytes=16 << 20) as engine:
        wanted = engine.speak(SPOKEN).wait()
    for format in ("wav", "pcm", "mp3", "opus", "aac", "flac"):
        raw = RawFormat("s16le", 24_000) if format == "pcm" else None
        whole = client.audio.speech.create(**SPEECH, response_format=format).content
        found = decode(whole, rate=24_000, raw=raw).values
        assert len(found) == pytest.approx(len(wanted), abs=3000)
        if format in ("wav", "pcm", "flac"):
            np.testing.assert_allclose(found, wanted, atol=1e-3)
        else:
            level = float(np.sqrt(np.mean(found**2)) / np.sqrt(np.mean(wanted**2)))
            assert 0.85 < level < 1.15
        events = speech_events(client, response_format=format)
        assert [event["type"] for event in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1)
        assert events[-1]["type"] == "speech.audio.done"
        assert events[-1]["usage"]["seconds"] == pytest.approx(len(wanted) / 24_000, abs=0.001)
        joined = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
        if format != "opus":  # whose stream has a number of its own
            assert joined == whole
        assert len(decode(joined, rate=24_000, raw=raw).values) == len(found)


def speech_events(client: openai.OpenAI, **more: Any) -> list[dict[str, Any]]:
    with client.audio.speech.with_streaming_response.create(**{**SPEECH, **more}, stream_format="sse") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]


def test_the_times_of_spoken_words(client: openai.OpenAI) -> None:
    """An event before the sound of each clause; all of them together are the text, from its beginning to its end."""
    text = "Hello there, Dr. Smith. It costs $5.20 today."
    events = speech_events(client, input=text, response_format="mp3", extra_body={"words": True})
    kinds = [event["type"].removeprefix("speech.audio.") for event in events]
    assert kinds[0] == "words" and kinds[-1] == "done" and kinds.count("words") >= 2
    clauses = [event for event in events if event["type"] == "speech.audio.words"]
    assert " ".join(clause["text"] for clause in clauses) == text
    for clause in clauses:
        assert all(clause["start"] <= word["start"] <= word["end"] <= clause["end"] + 0.1 for word in clause["words"])
    assert clauses[0]["start"] == 0 and clauses[-1]["end"] == pytest.approx(events[-1]["usage"]["seconds"], abs=0.01)
    written = [word["word"] for clause in clauses for word in clause["words"]]
    assert written[:2] == ["Hello", "there"] and "today" in written
    with pytest.raises(openai.BadRequestError, match="stream_format sse"):
        client.audio.speech.create(**SPEECH, extra_body={"words": True})


def test_characters_that_cannot_be_read_are_reported(client: openai.OpenAI) -> None:
    create = client.audio.speech.with_raw_response.create
    text = "Hello 漢字, 漢字 and 😀 world."
    headers = create(**{**SPEECH, "input": text}, response_format="pcm").headers
    assert headers["x-antiphon-unreadable-characters"] == "6"
    runs = [unquote(run) for run in headers["x-antiphon-unreadable"].split(",")]
    usage = speech_events(client, input=text, response_format="pcm")[-1]["usage"]
    assert (usage["unreadable_characters"], usage["unreadable"]) == (6, runs) and runs == ["漢字, 漢字", "😀"]
    many = " and ".join(chr(0x4E00 + number) * 30 for number in range(100))
    bounded = create(**{**SPEECH, "input": f"Hello {many}."}, response_format="pcm").headers
    assert bounded["x-antiphon-unreadable-characters"] == "3000" and len(bounded["x-antiphon-unreadable"]) <= 1500
    plain = create(**SPEECH, response_format="pcm").headers
    assert "x-antiphon-unreadable" not in plain
    usage = speech_events(client, response_format="pcm")[-1]["usage"]
    assert (usage["unreadable_characters"], usage["unreadable"]) == (0, [])


def test_speech_comes_back_as_its_words(client: openai.OpenAI) -> None:
    sound = client.audio.speech.create(**SPEECH).content  # MP3 unless told
    heard = client.audio.transcriptions.create(model="whisper-1", file=("a.mp3", sound))
    assert is_heard(SPOKEN, heard.text)
    fast = client.audio.speech.create(**SPEECH, speed=2.0, response_format="pcm").content
    slow = client.audio.speech.create(**SPEECH, speed=0.5, response_format="pcm").content
    assert len(slow) > 2.5 * len(fast)


def test_speech_leaves_while_the_rest_is_made(sound: RunningServer, client: openai.OpenAI) -> None:
    """When the first chunk is here, the engine still has clauses to speak."""
    with client.audio.speech.with_streaming_response.create(
        **{**SPEECH, "input": " ".join([SPOKEN] * 15)}, response_format="pcm"
    ) as answer:
        chunks = answer.iter_bytes()
        next(chunks)
        wait_until(lambda: any(sound.figures().values()), "an engine at work on the rest", seen=sound.figures)
        assert sum(len(chunk) for chunk in chunks) > 15 * 24_000 * 2
    sound.wait_until_idle()


def test_voices_and_refusals(sound: RunningServer, client: openai.OpenAI) -> None:
    told = httpx.get(sound.url + "/v1/audio/voices").json()
    assert (told["model"], told["default"]) == ("hibari-6m", "heart")
    heart = told["data"][0]
    assert (heart["id"], heart["name"], heart["language"], heart["gender"]) == ("heart", "heart", "en-us", None)
    for wrong, message in (
        ({"voice": "nobody"}, "'hibari-6m': there is no voice 'nobody'; choose one of: heart, or by alias: alloy"),
        ({"voice": "heart:0"}, "add up to 0"),
        ({"input": "😀 🎉"}, "nothing in the text"),
        ({"extra_body": {"language": "tlh"}}, "no phonemes for language 'tlh'"),
    ):
        with pytest.raises(openai.BadRequestError, match=message):
            client.audio.speech.create(**{**SPEECH, **wrong})
    assert len(client.audio.speech.create(**{**SPEECH, "voice": {"id": "heart"}}).content) > 1000
    told = client.audio.speech.with_raw_response.create(**SPEECH, instructions="Whisper.")
    assert told.headers["x-antiphon-ignored"] == "instructions"
    text = httpx.get(sound.url + "/metrics").text
    assert 'antiphon:speech_audio_seconds_total{model_name="hibari-6m"}' in text


def test_chat_by_voice(sound: RunningServer, client: openai.OpenAI) -> None:
    """What is heard and said is the same as what is read and written."""
    said = {"data": base64.b64encode(jfk().read_bytes()).decode(), "format": "wav"}
    heard = client.audio.transcriptions.create(model="default-transcription", file=jfk()).text
    common: dict[str, Any] = {"model": "smollm2-135m", "temperature": 0, "max_tokens": 24}
    aloud: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"voice": "heart", "format": "pcm16"}}

    def ask(content: Any, *before: Any, **more: Any) -> Any:
        messages = [*before, {"role": "user", "content": content}]
        return client.chat.completions.create(**common, messages=messages, **more)

    written = ask([{"type": "text", "text": heard}])
    spoken = ask([{"type": "input_audio", "input_audio": said}], **aloud)
    text, audio = written.choices[0].message.content, spoken.choices[0].message.audio
    assert (spoken.choices[0].message.content, audio.transcript) == (None, text)
    assert spoken.usage.prompt_tokens == written.usage.prompt_tokens
    samples = base64.b64decode(audio.data)
    assert len(samples) > 2 * 24_000
    told = [chunk.choices[0].delta.model_dump(exclude_none=True) for chunk in ask(heard, **aloud, stream=True)]
    deltas = [delta["audio"] for delta in told if "audio" in delta]
    assert "".join(delta.get("transcript", "") for delta in deltas) == text
    assert b"".join(base64.b64decode(delta.get("data", "")) for delta in deltas) == samples
    assert "expires_at" in deltas[-1] and len({delta["id"] for delta in deltas}) == 1
    again = ask("Go on.", {"role": "assistant", "audio": {"id": audio.id}})
    assert again.choices == ask("Go on.", {"role": "assistant", "content": text}).choices
    for wrong, param in (
        (dict(modalities=["text", "audio"]), "audio"),
        (dict(audio=aloud["audio"]), "audio"),
        (dict(aloud, n=2), "n"),
        (dict(aloud, audio={"voice": "nobody", "format": "wav"}), "audio.voice"),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            ask("hello", **wrong)
        assert caught.value.param == param
    with pytest.raises(openai.BadRequestError, match="there is no sound"):
        ask("Go on.", {"role": "assistant", "audio": {"id": "audio_of_nobody"}})
    sound.wait_until_idle()


@pytest.mark.parametrize("kind", ["audio", "sse"])
def test_leaving_ends_the_speech(sound: RunningServer, kind: str) -> None:
    body = {**SPEECH, "input": LONG, "response_format": "pcm", "stream_format": kind}
    with httpx.stream("POST", sound.url + "/v1/audio/speech", json=body, timeout=60) as answer:
        next(answer.iter_bytes())
    wait_until(lambda: not len(sound.serving.requests), "the request to end", seen=lambda: list(sound.serving.requests))
    sound.wait_until_idle()


def test_leaving_ends_the_transcription(sound: RunningServer) -> None:
    file = wav_bytes(np.concatenate([decode(jfk()).values] * 20))
    answered = lambda: 'route="/v1/audio/transcriptions",status="499"' in sound.metrics()  # noqa: E731
    assert not answered()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            sound.url + "/v1/audio/transcriptions",
            files={"file": ("a.wav", file)},
            data={"model": "whisper-1"},
            timeout=httpx.Timeout(1.0, write=60),
        )
    wait_until(lambda: not len(sound.serving.requests), "the request to end", seen=lambda: list(sound.serving.requests))
    wait_until(answered, "the request to be counted as left", seen=sound.metrics)
    sound.wait_until_idle()


def test_a_death_of_the_engine_is_told(sound: RunningServer) -> None:
    body = {**SPEECH, "input": LONG, "response_format": "pcm"}
    url = sound.url + "/v1/audio/speech"
    events = {**body, "stream_format": "sse"}
    with (
        httpx.stream("POST", url, json=body, timeout=60) as raw,
        httpx.stream("POST", url, json=events, timeout=60) as told,
    ):
        pieces, lines = raw.iter_bytes(), told.iter_lines()
        next(pieces), next(lines)
        assert sound.serving.client.pid is not None
        os.kill(sound.serving.client.pid, signal.SIGKILL)
        *_, last = (line for line in lines if line)
        error = json.loads(last.removeprefix("data: "))["error"]
        assert error["code"] == "engine_restarting" and "SIGKILL" in error["message"]
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    ready = lambda: httpx.get(sound.url + "/readyz", timeout=60)  # noqa: E731
    wait_until(lambda: ready().is_success, "the models to be loaded again", seen=lambda: ready().text)
