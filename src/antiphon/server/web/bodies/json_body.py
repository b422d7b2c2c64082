"""JSON bodies of requests: limited in size, validated against a schema, with errors that name the field."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from antiphon.runtime.residency.keep_alive import parse_keep_alive
from antiphon.server.web.bodies.body_size import SMALL_BYTES, BodyBudget, check_structure
from antiphon.server.web.bodies.stepped_validation import validated
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import ApiError, ClientDisconnectedError, invalid

Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request, model: type[Model], limit: int, takes_any_type: bool = False) -> Model:
    """Read the body as an object of the schema. Raise an `ApiError` with a 4xx status if it is invalid.

    `takes_any_type` is for routes whose clients omit the content type. Pages in a browser must still send it.
    """
    if not takes_any_type or "origin" in request.headers:
        check_json_type(request)
    data = await _read(request, limit)
    if len(data) > SMALL_BYTES:
        await asyncio.to_thread(check_structure, data)
    else:
        check_structure(data)
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}", code="invalid_json") from None
    body = await validated(model, parsed, context_of(request))
    record_body(request, body, parsed)
    return body


def check_json_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = f"the content type is {kind[:80] or 'missing'!r}; it must be application/json"
        raise ApiError(415, message, code="unsupported_media_type")


def record_body(request: Request, body: BaseModel, parsed: Any) -> None:
    """Copy the body's `keep_alive`, and its text if it may be logged, into the request's context."""
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
    hold = _Hold(request)
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise too_large(size, limit)
            hold.grow(size)
            pieces.append(piece)
    except ClientDisconnect:
        raise ClientDisconnectedError from None
    return b"".join(pieces)


class _Hold:
    """Bytes that a body reserves in the budget of all bodies, until its request ends."""

    def __init__(self, request: Request) -> None:
        self._budget: BodyBudget = request.app.state.body_budget
        self._held = 0
        context_of(request).at_end.append(lambda: self._budget.release(self._held))

    def grow(self, size: int) -> None:
        if size > SMALL_BYTES:
            self._budget.reserve(size - self._held)
            self._held = size


def too_large(size: int, limit: int) -> ApiError:
    # The rest of the body is not read, so the connection cannot be reused.
    headers = {"connection": "close"}
    message = f"the body has {size:,} bytes or more; at most {limit:,} are allowed"
    return ApiError(413, message, code="body_too_large", headers=headers)
