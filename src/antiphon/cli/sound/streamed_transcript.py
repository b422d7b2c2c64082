"""`TranscriptRequest`: a server's transcript, in parts as they arrive, in the format of the command line."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from antiphon.cli.remote.client import Client, ServerError, ServerResponse
from antiphon.cli.remote.events import AnswerEvents
from antiphon.cli.remote.form import Form

#: Statuses with which servers reject an unknown field or value.
REJECTED = (400, 422)
SUBTITLES = ("srt", "vtt")
#: Order of the fields of verbose JSON; the last event of a stream has the text first.
VERBOSE_FIELDS = ("task", "language", "duration", "text", "segments", "words")


class TranscriptReceiver(Protocol):
    """Receiver of a transcript's parts and of the request's progress, called in the request's thread."""

    def put(self, part: str) -> None: ...

    def sent(self, share: float) -> None:
        """Take the share of the recording that has been sent."""
        ...

    def heard(self, seconds: float) -> None:
        """Take the seconds that the server has transcribed."""
        ...


@dataclass(frozen=True)
class TranscriptRequest:
    """Request for the transcript of a recording.

    `fields` are the form's, without formats; `piped` is standard input. With `wants_seconds`, plain text is requested
    with the seconds transcribed so far.
    """

    client: Client
    path: str
    format: str
    words: bool
    fields: list[tuple[str, str]]
    piped: bytes = b""
    wants_seconds: bool = False

    def transcribe(self, name: str, receiver: TranscriptReceiver) -> float:
        """Pass the transcript in parts that join to the embedded command's output; return the seconds.

        If a server rejects `stream`, the request is repeated without it.
        """
        started = time.perf_counter()
        try:
            try:
                self._send(name, receiver, is_streamed=True)
            except ServerError as error:
                if error.status not in REJECTED or "stream" not in str(error):
                    raise
                self._send(name, receiver, is_streamed=False)
        except UnicodeDecodeError as error:
            raise ServerError(f"{self.client.address.url} sent a transcript that is not UTF-8: {error}") from error
        except OSError as error:
            raise ServerError(f"cannot send {name}: {error.strerror or error}") from error
        return time.perf_counter() - started

    @property
    def _is_plain(self) -> bool:
        return self.format == "text" and not self.words

    def _send(self, name: str, receiver: TranscriptReceiver, *, is_streamed: bool) -> None:
        # Subtitles cannot be streamed: they are made here from the segments.
        with_segments = (*SUBTITLES, "text") if self.wants_seconds else SUBTITLES
        is_verbose = self.words or (is_streamed and self.format in with_segments)
        fields = [*self.fields[:1], ("response_format", "verbose_json" if is_verbose else self.format)]
        fields += self.fields[1:]
        if self.words:
            fields += [("timestamp_granularities[]", kind) for kind in ("segment", "word")]
        if is_streamed:
            fields.append(("stream", "true"))
        with io.BytesIO(self.piped) if name == "-" else open(name, "rb") as stream:
            form = Form(fields, "stdin" if name == "-" else Path(name).name, stream, receiver.sent)
            with self.client.send(self.path, form, form.size, form.content_type) as response:
                if response.content_type == "text/event-stream":
                    self._read_events(AnswerEvents(self.client, response), receiver)
                else:
                    self._read_whole(response, receiver.put)

    def _read_events(self, events: AnswerEvents, receiver: TranscriptReceiver) -> None:
        put = receiver.put
        parts: dict[str, list[Any]] = {"segments": [], "words": []}
        text = written = ""
        content: dict[str, Any] | None = None
        for event in events:
            if event.get("type") == "transcript.text.done":
                content = {name: value for name, value in event.items() if name != "type"}
                break
            text += _delta(event)
            if isinstance(event.get("seconds"), int | float):
                receiver.heard(event["seconds"])
            for name, found in parts.items():
                found += event.get(name) or ()
            if self._is_plain:
                written = _put_more(text, written, put)
            elif "json" not in self.format:
                written = _put_more(self._subtitles(parts), written, put)
        if content is None:
            if not events.is_done:
                raise ServerError(f"{self.client.address.url} ended its stream before the transcript was complete")
            content = {"text": text}  # vLLM sends no such event
        if "json" in self.format:
            whole = self._rendered(content)
        else:
            whole = content.get("text", text) if self._is_plain else self._subtitles({**parts, **content})
        _put_more(_closed(whole), written, put)

    def _read_whole(self, response: ServerResponse, put: Callable[[str], None]) -> None:
        """Read the answer of a server that does not stream at all, or not for this model."""
        if "json" in self.format:
            text = self._rendered(response.json())
        elif self._is_plain and response.content_type == "application/json":
            text = str(response.json().get("text", ""))
        elif self.words or response.content_type == "application/json":
            text = self._subtitles(response.json())
        else:
            text = response.read().decode()
        put(_closed(text))

    def _rendered(self, content: Any) -> str:
        if not isinstance(content, dict) or "text" not in content:
            raise ServerError(f"{self.client.address.url} answered without a transcript")
        content.pop("usage", None)
        ordered = {name: content[name] for name in VERBOSE_FIELDS if name in content} | content
        return json.dumps(ordered, ensure_ascii=False, indent=2 if len(content) > 1 else None)

    def _subtitles(self, content: Any) -> str:
        """Render verbose JSON's segments as subtitles, or its words with their times."""
        from antiphon.runtime.calls.transcript import Segment, Word
        from antiphon.runtime.transcription.captions import WORD_FORMATS, srt, vtt

        try:
            if self.words:
                words = [Word(word["word"], word["start"], word["end"], 1.0) for word in content["words"]]
                return WORD_FORMATS[self.format](words)
            found = [Segment(part["start"], part["end"], part["text"]) for part in content["segments"]]
        except (KeyError, TypeError):
            missing = "words" if self.words else "segments"
            raise ServerError(f"{self.client.address.url} answered without the times of {missing}") from None
        return (srt if self.format == "srt" else vtt)(found)


def _put_more(whole: str, written: str, put: Callable[[str], None]) -> str:
    """Put the text after the written part, and return the whole text."""
    if len(whole) > len(written):
        put(whole[len(written) :])
    return whole


def _delta(event: dict[str, Any]) -> str:
    """Return the text that an event adds, in OpenAI's format or vLLM's."""
    choices = event.get("choices")
    text = choices[0].get("delta", {}).get("content") if choices else event.get("delta")
    return text if isinstance(text, str) else ""


def _closed(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
