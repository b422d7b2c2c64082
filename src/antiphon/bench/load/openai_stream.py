"""Streamed answers of an OpenAI-compatible server, timed as they arrive."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from antiphon.bench.load.http_stream import HttpClient, TransferError
from antiphon.bench.load.records import MeasuredRequest


class Endpoint(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self is Endpoint.CHAT else "/v1/completions"


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    """Parts of a chunk that are used; the decoder skips the rest."""

    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Chunk).decode
ABSENT = (b"", b"null")


@dataclass(frozen=True)
class Job:
    """Request to send. Token ids as prompts are for completions only; `fields` are added to the body."""

    prompt: str | list[int]
    output_tokens: int
    fields: dict[str, Any] = field(default_factory=dict)

    def body(self, endpoint: Endpoint, model: str) -> bytes:
        body: dict[str, Any] = {"model": model}
        if endpoint is Endpoint.CHAT:
            body["messages"] = [{"role": "user", "content": self.prompt}]
        else:
            body["prompt"] = self.prompt
        body |= {"max_tokens": self.output_tokens, "stream": True, "stream_options": {"include_usage": True}}
        return msgspec.json.encode(body | self.fields)


class StreamReader:
    """Receiver that fills a record from an answer's bytes."""

    def __init__(self, record: MeasuredRequest) -> None:
        self.record = record
        self._status = 0
        self._rest = b""
        self._is_done = False

    def head(self, status: int) -> None:
        self._status = status

    def body(self, data: bytes, now: float) -> None:
        if self._rest:
            data = self._rest + data
        if self._status != 200:
            self._rest = data
            return
        lines = data.split(b"\n")
        self._rest = lines.pop()
        chunks = characters = 0
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            content = line[5:].strip()
            if content == b"[DONE]":
                self._is_done = True
                continue
            written = self._take(content)
            if written:
                chunks += 1
                characters += written
        if chunks:
            record = self.record
            record.arrival_times.append(now)
            record.arrival_chunks.append(chunks)
            record.arrival_characters.append(characters)

    def _take(self, content: bytes) -> int:
        """Read a chunk; return its number of characters of text."""
        try:
            chunk = _decode(content)
        except msgspec.DecodeError as error:
            raise TransferError("invalid_response", f"a chunk cannot be read ({error}): {content[:80]!r}") from error
        if bytes(chunk.error) not in ABSENT:
            raise TransferError("stream_error", _message(bytes(chunk.error)))
        record = self.record
        written = 0
        for choice in chunk.choices or ():
            if choice.finish_reason is not None:
                record.finish_reason = choice.finish_reason
            delta = choice.delta
            text = choice.text if delta is None else delta.content or delta.reasoning_content or delta.reasoning
            if text:
                written += len(text)
        if bytes(chunk.usage) not in ABSENT:
            self._take_usage(msgspec.json.decode(chunk.usage))
        return written

    def _take_usage(self, usage: dict[str, Any]) -> None:
        record = self.record
        record.prompt_tokens = usage.get("prompt_tokens")
        record.completion_tokens = usage.get("completion_tokens")
        details = usage.get("prompt_tokens_details") or {}
        record.cached_tokens = details.get("cached_tokens")
        drafts = usage.get("completion_tokens_details") or {}
        accepted, rejected = drafts.get("accepted_prediction_tokens"), drafts.get("rejected_prediction_tokens")
        if accepted is not None and rejected is not None:
            record.drafted_tokens, record.accepted_tokens = accepted + rejected, accepted
        record.timings = usage.get("timings") or {}

    def finish(self) -> None:
        """Finish the record; raise `TransferError` if the answer is incomplete or an error."""
        if self._status != 200:
            raise TransferError(f"http_{self._status}", _message(self._rest))
        if self._rest.strip():
            self.body(b"\n", time.perf_counter())
        if not self._is_done and self.record.finish_reason is None:
            raise TransferError("disconnected", "the stream ended without an end")


def _message(content: bytes) -> str:
    """Return the message of an error in OpenAI's format, or else the first characters of the body."""
    try:
        error = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content[:200].decode("utf-8", "replace")
    if isinstance(error, dict):
        error = error.get("error", error)
        if isinstance(error, dict):
            error = error.get("message", error)
    return str(error)[:200]


async def perform(
    client: HttpClient, endpoint: Endpoint, model: str, job: Job, due: float | None = None
) -> MeasuredRequest:
    """Send a request and time it. Errors are stored in the record, not raised."""
    content = job.body(endpoint, model)
    started = time.perf_counter()
    record = MeasuredRequest(started, started if due is None else due)
    reader = StreamReader(record)
    try:
        await client.request("POST", endpoint.path, content, reader)
        reader.finish()
    except TransferError as error:
        record.error, record.message = error.kind, str(error)
    record.ended = time.perf_counter()
    return record
