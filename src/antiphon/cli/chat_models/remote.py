"""`RemoteModel`: a model on a running server, for `run` and `chat`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from antiphon.cli.chat_models.interface import AnswerStats
from antiphon.cli.remote.client import Client, ServerError
from antiphon.cli.remote.events import AnswerEvents

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
CANCELLED = "cancelled"


class RemoteModel:
    """Model under its name on the server. Omitted settings are left to the server."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self.client = client

    def answer(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], **fields: Any) -> RemoteAnswer:
        """Start an answer; `fields` are added to the request body."""
        return RemoteAnswer(self.client, CHAT, self._body(settings, messages=[dict(one) for one in messages], **fields))

    def complete(self, prompt: str, settings: Mapping[str, Any], **fields: Any) -> RemoteAnswer:
        """Continue a text without a chat template."""
        return RemoteAnswer(self.client, COMPLETIONS, self._body(settings, prompt=prompt, **fields))

    def _body(self, settings: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        given = {name: value for name, value in settings.items() if value is not None}
        if "stop" in given:
            given["stop"] = list(given["stop"])
        return {"model": self.name, **fields, **given, "stream": True, "stream_options": {"include_usage": True}}


class RemoteAnswer:
    """`AnswerStream` from a server. With `n` above 1, `samples` yields the pieces of all samples."""

    def __init__(self, client: Client, path: str, body: dict[str, Any]) -> None:
        self._url = client.address.url
        self._started = time.perf_counter()
        self._first = self._last = 0.0
        self._num_samples: int = body.get("n") or 1
        self._reasons: dict[int, str] = {}
        self._is_thinking: set[int] = set()
        self._usage: Mapping[str, Any] = {}
        self._num_pieces = 0
        self._is_cancelled = False
        self._events = AnswerEvents(client, client.post(path, body))

    def __iter__(self) -> Iterator[str]:
        for _, text in self.samples():
            yield text

    def samples(self) -> Iterator[tuple[int, str]]:
        """Yield pieces of text as they arrive, each with the index of its sample."""
        for event in self._events:
            usage = event.get("usage")
            if isinstance(usage, Mapping):
                self._usage = usage
            for choice in event.get("choices") or ():
                index = choice.get("index") or 0
                if choice.get("finish_reason"):
                    self._reasons[index] = str(choice["finish_reason"])
                text = self._text(index, choice)
                if text:
                    self._last = time.perf_counter()
                    self._first = self._first or self._last
                    self._num_pieces += 1
                    yield index, text
        if not (self._is_cancelled or self._events.is_done or len(self._reasons) == self._num_samples):
            raise ServerError(f"{self._url} ended the stream before the answer was complete; try again")

    def _text(self, index: int, choice: Mapping[str, Any]) -> str:
        """Return the choice's text, with reasoning between the tags that models write around it."""
        delta = choice.get("delta")
        if delta is None:
            return choice.get("text") or ""
        reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
        content = delta.get("content") or ""
        if reasoning and index not in self._is_thinking:
            self._is_thinking.add(index)
            reasoning = "<think>" + reasoning
        if content and index in self._is_thinking:
            self._is_thinking.remove(index)
            content = "</think>" + content
        return reasoning + content

    def cancel(self) -> None:
        """Close the connection, upon which the server stops."""
        if not self._events.is_done:
            self._is_cancelled = True
        self._events.close()

    def stats(self) -> AnswerStats:
        """Return statistics; times are the client's, network included.

        Without the server's token count, a piece is a token.
        """
        counted = self._usage.get("completion_tokens")
        num_tokens = self._num_pieces if counted is None else counted
        details = self._usage.get("prompt_tokens_details") or {}
        drafts = self._usage.get("completion_tokens_details") or {}
        accepted = drafts.get("accepted_prediction_tokens") or 0
        seconds = self._last - self._first
        return AnswerStats(
            prompt_tokens=self._usage.get("prompt_tokens") or 0,
            cached_tokens=details.get("cached_tokens") or 0,
            completion_tokens=num_tokens,
            time_to_first_token=self._first - self._started if self._first else 0.0,
            tokens_per_second=(num_tokens - 1) / seconds if seconds > 0 and num_tokens > 1 else 0.0,
            finish_reason=CANCELLED if self._is_cancelled else self._reasons.get(0, "unknown"),
            drafted_tokens=accepted + (drafts.get("rejected_prediction_tokens") or 0),
            accepted_tokens=accepted,
        )
