"""Error responses in the format of OpenAI's API, each with its status and code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.errors import (
    AntiphonError,
    AudioError,
    CheckpointError,
    ContextLengthError,
    DownloadCancelledError,
    EngineError,
    FetchError,
    HomeError,
    InvalidRequestError,
    MemoryBudgetError,
    MemoryBusyError,
    MissingDependencyError,
    ModelInUseError,
    ModelNotFoundError,
    OverloadedError,
    TemplateError,
    TokenizerError,
    UnsupportedError,
)

INVALID = "invalid_request_error"
SERVER = "server_error"
#: End of messages about the context. LangChain searches for it, since OpenAI's client shows no error code.
TOO_LONG = "(context_length_exceeded: prompt is too long)"


class ApiError(Exception):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        kind: str = INVALID,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.headers = dict(headers or {})
        #: Result up to the failure, sent in the body as `partial`.
        self.partial: dict[str, Any] | None = None

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        if self.partial is not None:
            error["partial"] = self.partial
        return {"error": error}


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, code=code, param=param)


def unauthorized(message: str) -> ApiError:
    headers = {"www-authenticate": "Bearer"}
    return ApiError(401, message, code="invalid_api_key", kind="authentication_error", headers=headers)


def unavailable(message: str, code: str, retry_after: int = 2) -> ApiError:
    return ApiError(503, message, code=code, kind=SERVER, headers={"retry-after": str(retry_after)})


#: Status, code and type by class of error, most specific class first.
KINDS: tuple[tuple[type[AntiphonError], int, str, str], ...] = (
    (MissingDependencyError, 501, "missing_dependency", SERVER),
    (ContextLengthError, 400, "context_length_exceeded", INVALID),
    (OverloadedError, 429, "overloaded", "overloaded_error"),
    (MemoryBudgetError, 400, "model_too_large", INVALID),
    (MemoryBusyError, 503, "memory_busy", SERVER),
    (ModelInUseError, 409, "model_in_use", INVALID),
    (ModelNotFoundError, 404, "model_not_found", INVALID),
    (TemplateError, 400, "invalid_template", INVALID),
    (TokenizerError, 400, "invalid_value", INVALID),
    (UnsupportedError, 400, "unsupported_value", INVALID),
    (AudioError, 400, "invalid_audio", INVALID),
    (InvalidRequestError, 400, "invalid_value", INVALID),
    (DownloadCancelledError, 409, "download_cancelled", INVALID),
    (FetchError, 503, "model_load_failed", SERVER),
    (HomeError, 503, "model_load_failed", SERVER),
    (CheckpointError, 503, "model_load_failed", SERVER),
    (EngineError, 500, "engine_error", SERVER),
)

#: Beginnings of messages about a constraint that does not compile.
GRAMMAR_SUBJECTS = ("the JSON schema ", "the regex ", "the choice ", "the grammar ", "json_schema ")


def api_error(error: AntiphonError) -> ApiError:
    found = (row[1:] for row in KINDS if isinstance(error, row[0]))
    status, code, name = next(found, (500, "engine_error", SERVER))
    message = str(error)
    if status == 400 and code == "invalid_value" and message.startswith(GRAMMAR_SUBJECTS):
        code = "invalid_schema"
    if isinstance(error, ContextLengthError):
        message = f"This model's maximum context length is exceeded: {message} {TOO_LONG}"
    headers = {"retry-after": "1"} if status in (429, 503) else {}
    return ApiError(status, message, code=code, kind=name, headers=headers)


class ClientDisconnectedError(Exception):
    """Disconnection of the client before its request was read or answered."""
