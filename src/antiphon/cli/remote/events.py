"""Server-sent events of an answer, decoded as they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from antiphon.cli.remote.client import Client, ServerError, ServerResponse

END = "[DONE]"


class AnswerEvents:
    """JSON objects of an event stream. `is_done` becomes True once the server has sent the end marker.

    A new iteration continues where the last one stopped; after `close` it ends.
    """

    def __init__(self, client: Client, response: ServerResponse) -> None:
        self._url = client.address.url
        self._response = response
        self._pieces = iter(response)
        self._lines: list[bytes] = []
        self._rest = b""
        self.is_done = False
        if response.content_type != "text/event-stream":
            response.close()
            kind = response.content_type or "of no type"
            raise ServerError(
                f"{self._url} answered a request for a stream with other content ({kind}): "
                "it is not an OpenAI-compatible API"
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while not (self.is_done or self._response.is_closed):
            while self._lines and not self.is_done:
                event = self._event(self._lines.pop(0))
                if event is not None:
                    yield event
            if self.is_done:
                break
            piece = next(self._pieces, b"")
            if not piece:
                break
            *self._lines, self._rest = (self._rest + piece).split(b"\n")
        self._response.close()

    def _event(self, line: bytes) -> dict[str, Any] | None:
        """Return the line's event; None for comments, other fields and the end marker."""
        name, _, value = line.partition(b":")
        data = value.strip()
        if name != b"data" or not data:
            return None
        if data == END.encode():
            self.is_done = True
            return None
        try:
            event = json.loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self._response.close()
            raise ServerError(
                f"{self._url} sent an event that is not a JSON object: {data[:80]!r}; the answer is incomplete"
            )
        error = event.get("error")
        if error:
            self._response.close()
            message = error.get("message") if isinstance(error, dict) else error
            raise ServerError(f"{self._url} broke off: {message}")
        return event

    def close(self) -> None:
        """End the stream; safe to call while another thread iterates."""
        self._response.abort()
