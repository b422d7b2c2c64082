"""`antiphon transcribe` with a server that streams, which a stub plays here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client
from antiphon.cli.sound.streamed_transcript import TranscriptRequest
from support.programs.command_line import Invoke
from support.server.stub_server import (
    EVENTS,
    Answer,
    Request,
    chat_events,
    event,
    failure,
    form_of,
    streamed,
    stub_server,
)

PATH = "/v1/audio/transcriptions"


def transcript_events(*texts: str) -> list[bytes]:
    """A streamed transcript in these parts, a second each."""
    events = []
    for number, text in enumerate(texts):
        words = [{"word": text.strip(), "start": float(number), "end": number + 0.5}]
        segments = [{"id": number, "start": float(number), "end": number + 1.0, "text": text}]
        events.append(
            event({"type": "transcript.text.delta", "delta": text, "segments": segments, "words": words, "seconds": 1})
        )
    done = {"type": "transcript.text.done", "text": "".join(texts), "usage": {"type": "tokens"}}
    return [*events, event(done)]


def test_a_transcript_is_printed_while_it_is_made(tmp_path: Path) -> None:
    """Each part is read before the server sends the next."""
    sound = tmp_path / "a.wav"
    sound.write_bytes(b"sound")
    heard = [threading.Event(), threading.Event()]
    first, second, done = transcript_events("One.", " Two.")

    def parts() -> Iterator[bytes]:
        yield first
        assert heard[0].wait(120)
        yield second
        assert heard[1].wait(120)
        yield done

    read: list[str] = []
    progress: list[float] = []
    with stub_server({PATH: Answer(parts(), content_type=EVENTS)}) as server:
        client = Client(ServerAddress.parse(server.url))
        request = TranscriptRequest(client, PATH, "text", False, [("model", "w")])

        class Receiver:
            def put(self, part: str) -> None:
                heard[min(len(read), 1)].set()
                read.append(part)

            def sent(self, share: float) -> None:
                progress.append(share)

            def heard(self, seconds: float) -> None:
                progress.append(seconds)

        request.transcribe(str(sound), Receiver())
    assert read == ["One.", " Two.", "\n"] and progress == [1.0, 1, 1]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], "One. Two.\n"),
        (["--format", "json"], '{"text": "One. Two."}\n'),
        (
            ["--format", "srt"],
            "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:01,000 --> 00:00:02,000\nTwo.\n",
        ),
        (["--words"], "0.000\t0.500\tOne.\n1.000\t1.500\tTwo.\n"),
        (
            ["--words", "--format", "vtt"],
            "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\nOne.\n\n00:00:01.000 --> 00:00:01.500\nTwo.\n",
        ),
    ],
)
def test_streamed_transcripts_in_every_format(invoke: Invoke, options: list[str], wanted: str) -> None:
    with stub_server({PATH: streamed(*transcript_events("One.", " Two."))}) as server:
        assert invoke("transcribe", "-", *options, "--base-url", server.url, stdin=b"s")[:2] == (0, wanted)
        fields = {name: value for name, _, value in form_of(server.requests[0])}
    is_text = "--words" not in options and "srt" not in options
    formats = {"json": b"json"} if "json" in options else {}
    assert fields["response_format"] == (formats.get("json", b"text") if is_text else b"verbose_json")


def test_what_was_transcribed_before_a_failure_stays(invoke: Invoke) -> None:
    first, *_ = transcript_events("One.")
    broken = event({"error": {"message": "the engine died"}})
    with stub_server({PATH: streamed(first, broken)}) as server:
        outcome = invoke("transcribe", "-", "--base-url", server.url, stdin=b"s")
    assert outcome[:2] == (1, "One.\n") and "the engine died" in outcome[2]
    with stub_server({PATH: streamed(first)}) as server:
        outcome = invoke("transcribe", "-", "--base-url", server.url, stdin=b"s")
    assert outcome[:2] == (1, "One.\n") and "before the transcript was complete" in outcome[2]


def test_servers_that_stream_otherwise(invoke: Invoke) -> None:
    """One rejects `stream`, one has vLLM's events."""

    def answer(request: Request) -> Answer:
        if b'name="stream"' in request.body:
            return failure(400, "stream is not supported")
        return Answer([b"1\n00:00"], content_type="text/plain")

    with stub_server({PATH: answer}) as server:
        assert invoke("transcribe", "-", "--format", "srt", "--base-url", server.url, stdin=b"s")[:2] == (
            0,
            "1\n00:00\n",
        )
        asked = [value for request in server.requests for name, _, value in form_of(request) if name.endswith("format")]
        assert asked == [b"verbose_json", b"srt"]
    with stub_server({PATH: streamed(*chat_events("One.", " Two."))}) as server:
        assert invoke("transcribe", "-", "--base-url", server.url, stdin=b"s")[:2] == (0, "One. Two.\n")
