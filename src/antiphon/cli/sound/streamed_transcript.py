"""`TranscriptRequest`: a transcript from a server, in parts as they come, in the format of the command line."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.cli.remote.client import Client, ServerError, ServerResponse
from antiphon.cli.remote.events import AnswerEvents
from antiphon.cli.remote.form import Form

#: Statuses with which servers reject a field or a value that they do not know.
REJECTED = (400, 422)
SUBTITLES = ("srt", "vtt")


@dataclass(frozen=True)
class TranscriptRequest:
    """What is asked for each recording. `fields` are those of the form, without formats; `piped` is standard input."""

    client: Client
    path: str
    format: str
    words: bool
    fields: list[tuple[str, str]]
    piped: bytes = b""

    def transcribe(self, name: str, put: Callable[[str], None]) -> float:
        """Give `put` the transcript in parts that joined are what the embedded command writes. Returns the seconds.

        A server that rejects `stream` is asked again without it.
        """
        started = time.perf_counter()
        try:
            try:
                self._send(name, put, is_streamed=True)
            except ServerError as error:
                if error.status not in REJECTED or "stream" not in str(error):
                    raise
                self._send(name, put, is_streamed=False)
        except UnicodeDecodeError as error:
            raise ServerError(f"{self.client.address.url} sent a transcript that is not UTF-8: {error}") from error
        except OSError as error:
            raise ServerError(f"cannot send {name}: {error.strerror or error}") from error
        return time.perf_counter() - started

    @property
    def _is_plain(self) -> bool:
        return self.format == "text" and not self.words

    def _send(self, name: str, put: Callable[[str], None], *, is_streamed: bool) -> None:
        # Subtitles cannot be streamed: they are made here from the segments.
        is_verbose = self.words or (is_streamed and self.format in SUBTITLES)
        fields = [*self.fields[:1], ("response_format", "verbose_json" if is_verbose else self.format)]
        fields += self.fields[1:]
        if self.words:
            fields += [("timestamp_granularities[]", kind) for kind in ("segment", "word")]
        if is_streamed:
            fields.append(("stream", "true"))
        with io.BytesIO(self.piped) if name == "-" else open(name, "rb") as stream:
            form = Form(fields, "stdin" if name == "-" else Path(name).name, stream)
            with self.client.send(self.path, form, form.size, form.content_type) as response:
                if response.content_type == "text/event-stream":
                    self._read_events(AnswerEvents(self.client, response), put)
                else:
                    self._read_whole(response, put)

    def _read_events(self, events: AnswerEvents, put: Callable[[str], None]) -> None:
        parts: dict[str, list[Any]] = {"segments": [], "words": []}
        text = written = ""
        content: dict[str, Any] | None = None
        for event in events:
            if event.get("type") == "transcript.text.done":
                content = {name: value for name, value in event.items() if name != "type"}
                break
            text += _delta(event)
            for name, found in parts.items():
                found += event.get(name) or ()
            if self._is_plain:
                written = _put_more(text, written, put)
            elif "json" not in self.format:
                written = _put_more(self._subtitles(parts), written, put)
        if content is None:
            if not events.is_done:
                raise ServerError(f"{self.client.address.url} ended its stream before the transcript was complete")
            content = {"text": text}  # as of vLLM, which has no such event
        if "json" in self.format:
            whole = self._rendered(content)
        else:
            whole = content.get("text", text) if self._is_plain else self._subtitles({**parts, **content})
        _put_more(_closed(whole), written, put)

    def _read_whole(self, response: ServerResponse, put: Callable[[str], None]) -> None:
        """An answer of a server that does not stream, or not this model."""
        if "json" in self.format:
            text = self._rendered(response.json())
        elif self.words or (response.content_type == "application/json" and not self._is_plain):
            text = self._subtitles(response.json())
        else:
            text = response.read().decode()
        put(_closed(text))

    def _rendered(self, content: Any) -> str:
        if not isinstance(content, dict) or "text" not in content:
            raise ServerError(f"{self.client.address.url} answered without a transcript")
        content.pop("usage", None)
        return json.dumps(content, ensure_ascii=False, indent=2 if len(content) > 1 else None)

    def _subtitles(self, content: Any) -> str:
        """The segments as subtitles, or the times of words, from verbose JSON."""
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
    """Put what follows the part that was written, and return both."""
    if len(whole) > len(written):
        put(whole[len(written) :])
    return whole


def _delta(event: dict[str, Any]) -> str:
    """The text that an event adds, in OpenAI's form or vLLM's."""
    choices = event.get("choices")
    text = choices[0].get("delta", {}).get("content") if choices else event.get("delta")
    return text if isinstance(text, str) else ""


def _closed(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
