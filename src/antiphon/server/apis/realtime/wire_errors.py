"""`WireError`: the rejection of a client event, and `error` events. The session stays open."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import ValidationError

from antiphon.server.web.http.errors import INVALID, ApiError

MAX_MESSAGE = 1000
#: Error codes by type of pydantic error; any other type is `invalid_value`.
CODES = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}

#: Parts of pydantic's paths that name a variant, not a field.
TAGS = ("server_vad", "semantic_vad")


class WireError(Exception):
    """Rejection of a client event; `param` is the path of the field at fault."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value", kind: str = INVALID):
        super().__init__(message)
        self.message = message[:MAX_MESSAGE]
        self.param = param
        self.code = code
        self.kind = kind

    @classmethod
    def of(cls, error: ApiError, param: str | None = None) -> WireError:
        return cls(error.message, param or error.param, error.code, error.kind)

    @classmethod
    def of_validation(cls, error: ValidationError, prefix: str = "") -> WireError:
        """Return the error for the first violation of a schema."""
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = [str(part) for part in fault["loc"] if part not in TAGS and not str(part).startswith("function-")]
        param = ".".join(([prefix] if prefix else []) + path)
        code = CODES.get(fault["type"], "invalid_value")
        if code == "unknown_parameter":
            return cls(f"unknown parameter {param}", param, code)
        message = fault["msg"].removeprefix("Value error, ")
        return cls(f"{param}: {message}", param, code)


def event_id() -> str:
    return f"event_{uuid.uuid4().hex[:24]}"


def error_event(
    message: str, code: str, kind: str, param: str | None = None, cause: str | None = None
) -> dict[str, Any]:
    """Return an `error` event; `cause` is the client's id of the rejected event."""
    error = {"type": kind, "code": code, "message": message, "param": param, "event_id": cause}
    return {"type": "error", "event_id": event_id(), "error": error}
