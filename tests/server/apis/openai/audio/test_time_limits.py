"""Transcriptions that take longer than `--timeout`: what was done is not lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from support.server.scripted_transcriptions import PATH, ScriptedServer
from support.sound.sounds import silence, wav_bytes
from support.waiting import wait_until


def wait_until_sent(scribe: ScriptedServer, count: int) -> None:
    """Wait until the last request's time limit was restarted so often."""
    wait_until(lambda: scribe.limits[-1].num_restarts >= count, f"{count} restarts")


def test_the_error_has_the_text_so_far(scribe: ScriptedServer) -> None:
    with ThreadPoolExecutor(1) as pool, scribe.running.openai(scribe.key) as client:
        sound = ("a.wav", wav_bytes(silence(2)))
        answer = pool.submit(client.audio.transcriptions.create, model="whisper-1", file=sound)
        transcription = scribe.transcription()
        transcription.say("one", 0.5)
        transcription.say("two", 1.25)
        transcription.wait_until_read()
        scribe.expire(scribe.limits[-1])
        error = answer.exception(60)
    assert isinstance(error, openai.InternalServerError) and error.status_code == 504
    assert error.code == "timeout" and "1.2 s of the recording are transcribed" in error.message
    assert isinstance(error.body, dict)
    partial = error.body["partial"]
    assert (partial["text"], partial["seconds"]) == ("one two", 1.25)
    assert [(segment["id"], segment["text"]) for segment in partial["segments"]] == [(0, " one"), (1, " two")]
    assert transcription.is_closed
    assert not scribe.limits[-1].num_restarts  # one limit for the whole request


def test_an_engine_that_fails_loses_nothing_either(scribe: ScriptedServer) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(scribe.send)
        transcription = scribe.transcription()
        transcription.say("one", 0.5)
        transcription.fail()
        failed = answer.result(60)
    assert failed.status_code == 500
    assert failed.json()["error"]["partial"]["text"] == "one"


def test_errors_of_the_request_have_no_partial_text(scribe: ScriptedServer) -> None:
    rejected = scribe.request("POST", PATH, data={"model": "whisper-1"}, files={"file": ("a.wav", b"no sound")})
    assert rejected.status_code == 400 and "partial" not in rejected.json()["error"]


@pytest.mark.parametrize("path", [PATH, "/v1/audio/translations"])
@pytest.mark.parametrize("format", ["json", "verbose_json"])
def test_a_stream_sends_segments_as_they_are_made(scribe: ScriptedServer, path: str, format: str) -> None:
    """Each is read before the next is made, and restarts the time limit, which passes in the end."""
    files = {"file": ("a.wav", wav_bytes(silence(2)))}
    form = {"model": "whisper-1", "stream": "true", "response_format": format}
    headers = {"authorization": f"Bearer {scribe.key}"}
    with ThreadPoolExecutor(1) as pool, httpx.Client(headers=headers, timeout=60) as client:
        said = pool.submit(lambda: scribe.transcription().say("one", 0.5))
        with client.stream("POST", scribe.running.url + path, data=form, files=files) as answer:
            said.result()
            lines = answer.iter_lines()

            def read() -> dict[str, Any]:
                event: dict[str, Any] = json.loads(next(line for line in lines if line).removeprefix("data: "))
                return event

            assert read()["delta"] == "one"
            transcription = scribe.transcription()
            for count, (text, end) in enumerate([("two", 1.0), ("three", 1.5)], start=1):
                wait_until_sent(scribe, count)
                transcription.say(text, end)
                event = read()
                assert (event["type"], event["delta"]) == ("transcript.text.delta", f" {text}")
                assert format == "json" or event["seconds"] == end
            wait_until_sent(scribe, 3)
            scribe.expire(scribe.limits[-1])
            error = read()["error"]
    assert error["code"] == "timeout" and error["message"].endswith("since its last segment")
    assert "partial" not in error
    wait_until(lambda: transcription.is_closed, "the transcription's end")
