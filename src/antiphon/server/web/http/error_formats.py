"""Error formats of the server's APIs: as a body, and as the last event of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import event, named_event
from antiphon.server.web.http.schemas import AnswerBody, AnthropicErrorAnswer, ErrorAnswer, OllamaErrorAnswer


class ErrorFormat:
    """OpenAI's format, and the base class of the others."""

    #: Header with the request id in every answer, beside `x-request-id`.
    id_header: str | None = None
    #: Schema of `body`.
    schema: type[AnswerBody] = ErrorAnswer

    def body(self, error: ApiError, request_id: str) -> dict[str, Any]:
        return error.body()

    def event(self, error: ApiError, request_id: str) -> bytes:
        return event(self.body(error, request_id))


class AnthropicErrors(ErrorFormat):
    """Format `{"type": "error", "error": {"type", "message"}, "request_id"}`; in a stream, the event `error`."""

    id_header = "request-id"
    schema = AnthropicErrorAnswer
    KINDS: Mapping[int, str] = {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
    }

    def body(self, error: ApiError, request_id: str) -> dict[str, Any]:
        other = "api_error" if error.status >= 500 else "invalid_request_error"
        detail = {"type": self.KINDS.get(error.status, other), "message": error.message}
        return {"type": "error", "error": detail, "request_id": request_id}

    def event(self, error: ApiError, request_id: str) -> bytes:
        return named_event("error", self.body(error, request_id))


class OllamaErrors(ErrorFormat):
    """Format `{"error": message}`; in a stream, its last line."""

    schema = OllamaErrorAnswer

    def body(self, error: ApiError, request_id: str) -> dict[str, Any]:
        return {"error": error.message}

    def event(self, error: ApiError, request_id: str) -> bytes:
        return orjson.dumps(self.body(error, request_id), option=orjson.OPT_APPEND_NEWLINE)


OPENAI, ANTHROPIC, OLLAMA = ErrorFormat(), AnthropicErrors(), OllamaErrors()
ANTHROPIC_HEADER = b"anthropic-version"
MODELS = "/v1/models"


def error_format(path: str, headers: Mapping[bytes, bytes]) -> ErrorFormat:
    """Choose the format of a request by its path, and by a header for the routes that two APIs share."""
    if _is_at(path, "/v1/messages") or (_is_at(path, MODELS) and ANTHROPIC_HEADER in headers):
        return ANTHROPIC
    return OLLAMA if _is_at(path, "/api") else OPENAI


def _is_at(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
