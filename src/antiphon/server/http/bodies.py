"""Reading a request's JSON body: bounded in size, validated against its schema, with errors that name the field."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from antiphon.runtime.residency.keep_alive import parse_keep_alive
from antiphon.server.http.context import context_of
from antiphon.server.http.errors import ApiError, ClientDisconnectedError, invalid
from antiphon.server.http.unknown_fields import validate_known

Model = TypeVar("Model", bound=BaseModel)
MAX_MESSAGE_CHARACTERS = 300


async def read_body(request: Request, model: type[Model], limit: int, takes_any_type: bool = False) -> Model:
    """The body as an object of that schema; an invalid body raises an `ApiError` with a 4xx status.

    `takes_any_type` is for routes whose clients do not name the content type. Pages in a browser still have to.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if not is_json and (not takes_any_type or "origin" in request.headers):
        message = f"the content type is {kind[:80] or 'missing'!r}; it must be application/json"
        raise ApiError(415, message, code="unsupported_media_type")
    data = await _read(request, limit)
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}", code="invalid_json") from None
    try:
        body = validate_known(model, parsed, context_of(request))
        record_body(request, body, parsed)
        return body
    except ValidationError as error:
        raise validation_error(error) from None
    except RecursionError:
        raise invalid("the body is nested too deeply", code="invalid_json") from None


def record_body(request: Request, body: BaseModel, parsed: Any) -> None:
    """Copy into the request's context what it needs of the body."""
    context = context_of(request)
    keep_alive = getattr(body, "keep_alive", None)
    if keep_alive is not None:
        context.keep_alive = parse_keep_alive(keep_alive)
    if context.logs_text:
        context.log_fields["body"] = parsed


async def _read(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large(int(declared), limit)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise too_large(size, limit)
            pieces.append(piece)
    except ClientDisconnect:
        raise ClientDisconnectedError from None
    return b"".join(pieces)


def too_large(size: int, limit: int) -> ApiError:
    # The rest of the body is not read, so the connection cannot be reused.
    headers = {"connection": "close"}
    message = f"the body has {size:,} bytes or more; at most {limit:,} are allowed"
    return ApiError(413, message, code="body_too_large", headers=headers)


def validation_error(error: ValidationError) -> ApiError:
    """The first error. For a field with several forms, the error in the form that matched deepest."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    fault = unknown[0] if unknown else max(faults, key=lambda fault: len(fault["loc"]))
    param = _path(fault["loc"])
    if fault["type"] == "extra_forbidden":
        message = f"{param}: {str(fault['loc'][-1])[:100]!r} is not a field of this request"
        return invalid(message, param, "unknown_parameter")
    if fault["type"] == "missing":
        return invalid(f"{param} is missing", param, "missing_required_parameter")
    return invalid(f"{param}: {fault['msg'][:MAX_MESSAGE_CHARACTERS]}", param)


def _path(location: tuple[Any, ...]) -> str:
    """`messages[0].content`, without the names that pydantic gives to the members of a union."""
    path = ""
    for place, step in enumerate(location):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not place or (step.replace("_", "").isalnum() and step.islower() and step not in UNION_MEMBERS):
            path += f".{step}" if path else step
    return path[:200] or "body"


UNION_MEMBERS = frozenset(
    [
        "str",
        "int",
        "system",
        "developer",
        "user",
        "assistant",
        "tool",
        "function",
        "json_object",
        "text",
        "tool_use",
        "tool_result",
    ]
)
