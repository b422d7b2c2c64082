"""Reading a request's body: bounded, JSON, checked against its schema, faults named as OpenAI's clients expect."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from antiphon.runtime.keep_alive import parse_keep_alive
from antiphon.server.http.context import Passage
from antiphon.server.http.errors import ApiError, invalid

Model = TypeVar("Model", bound=BaseModel)
MAX_MESSAGE_CHARACTERS = 300


class ClientGoneError(Exception):
    """The client went away before its request was read or answered."""


async def read_body(request: Request, model: type[Model], limit: int) -> Model:
    """The body as an object of that schema; every fault is a 4xx answer that names it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = f"the content type is {kind[:80] or 'missing'!r}; it must be application/json"
        raise ApiError(415, message, code="unsupported_media_type")
    data = await _read(request, limit)
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}", code="invalid_json") from None
    try:
        body = model.model_validate(parsed)
        note_body(request, body, parsed)
        return body
    except ValidationError as error:
        raise fault_of(error) from None
    except RecursionError:
        raise invalid("the body is nested too deeply", code="invalid_json") from None


def note_body(request: Request, body: BaseModel, parsed: Any) -> None:
    """What the whole passage needs to know of the body."""
    passage: Passage = request.scope["passage"]
    keep_alive = getattr(body, "keep_alive", None)
    if keep_alive is not None:
        passage.keep_alive = parse_keep_alive(keep_alive)
    if passage.logs_text:
        passage.figures["body"] = parsed


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
        raise ClientGoneError from None
    return b"".join(pieces)


def too_large(size: int, limit: int) -> ApiError:
    # What is left of the body is not read, so the connection cannot be used again.
    headers = {"connection": "close"}
    message = f"the body has {size:,} bytes or more; at most {limit:,} are taken"
    return ApiError(413, message, code="body_too_large", headers=headers)


def fault_of(error: ValidationError) -> ApiError:
    """The first fault. If a field may have several forms, the fault in the form that matched deepest."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    fault = unknown[0] if unknown else max(faults, key=lambda fault: len(fault["loc"]))
    param = _path(fault["loc"])
    if fault["type"] == "extra_forbidden":
        message = f"{param}: {str(fault['loc'][-1])[:100]!r} is not a field that this server knows; it would be ignored"
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


UNION_MEMBERS = {"str", "int", "system", "developer", "user", "assistant", "tool", "json_object", "text"}
