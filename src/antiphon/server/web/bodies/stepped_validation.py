"""Validation of bodies with long lists, some items at a time, so that other requests run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from antiphon.server.web.bodies.unknown_fields import validate_known
from antiphon.server.web.http import text_only
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError, invalid

Model = TypeVar("Model", bound=BaseModel)
MAX_MESSAGE_CHARACTERS = 300
#: Objects of a list validated at a time: a few milliseconds.
STEP = 256
#: Maximum fields of the body or of an object in it, and of an object in a list: each invalid field takes time.
MAX_FIELDS = 4096
MAX_ITEM_FIELDS = 64


async def validated(model: type[Model], parsed: Any, context: RequestContext) -> Model:
    """Validate a body against a schema. Raise an `ApiError` that names the field if it is invalid."""
    _check_fields(parsed)
    long = _long_lists(parsed)
    if not long:
        return _validated(model, parsed, context)
    short = {**parsed, **{name: values[:STEP] for name, values in long.items()}}
    body = _validated(model, short, context)
    whole = {name: getattr(body, name) for name in long if name in model.model_fields}
    for name, made in whole.items():
        for start in range(STEP, len(long[name]), STEP):
            await asyncio.sleep(0)
            part = _validated(model, {**short, name: long[name][start : start + STEP]}, context, name, start)
            made += getattr(part, name)
    return body.model_copy(update=whole)


def _check_fields(parsed: Any) -> None:
    if not isinstance(parsed, dict):
        return
    for name, value in (("the body", parsed), *parsed.items()):
        if isinstance(value, dict) and len(value) > MAX_FIELDS:
            message = f"{name[:100]} has {len(value):,} fields; at most {MAX_FIELDS:,} are allowed"
            raise invalid(message, None if value is parsed else name[:100])
        if isinstance(value, list) and len(value) > STEP:
            most = max((len(item) for item in value if isinstance(item, dict)), default=0)
            if most > MAX_ITEM_FIELDS:
                message = f"an object in {name[:100]} has {most:,} fields; at most {MAX_ITEM_FIELDS} are allowed"
                raise invalid(message, name[:100])


def _long_lists(parsed: Any) -> dict[str, list[Any]]:
    """Return the fields whose value is a list of more than `STEP` objects."""
    if not isinstance(parsed, Mapping):
        return {}
    return {
        name: value
        for name, value in parsed.items()
        if isinstance(value, list) and len(value) > STEP and isinstance(value[0], dict)
    }


def _validated(model: type[Model], parsed: Any, context: RequestContext, name: str = "", start: int = 0) -> Model:
    """Validate a part of the body in which the list in field `name` begins at item `start`."""
    try:
        return validate_known(model, parsed, context)
    except ValidationError as error:
        raise validation_error(error, name, start) from None
    except RecursionError:
        raise invalid("the body is nested too deeply", code="invalid_json") from None


def validation_error(error: ValidationError, name: str = "", start: int = 0) -> ApiError:
    """Build the error for one fault. For a field with several forms, report the form that matched deepest."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    unreadable = [fault for fault in faults if fault["type"] == text_only.ERROR_TYPE]
    first = (unreadable or unknown)[:1]
    fault = first[0] if first else max(faults, key=lambda fault: len(fault["loc"]))
    param = _path(_moved(fault["loc"], name, start))
    if unreadable:
        return invalid(f"{param}: {text_only.TEXT_ONLY}", param, "unsupported_value")
    if fault["type"] == "extra_forbidden":
        message = f"{param}: {str(fault['loc'][-1])[:100]!r} is not a field of this request"
        return invalid(message, param, "unknown_parameter")
    if fault["type"] == "missing":
        return invalid(f"{param} is missing", param, "missing_required_parameter")
    return invalid(f"{param}: {fault['msg'][:MAX_MESSAGE_CHARACTERS]}", param)


def _moved(location: tuple[Any, ...], name: str, start: int) -> tuple[Any, ...]:
    """Return the location with the index in the whole list."""
    if not start or location[:1] != (name,):
        return location
    position = next((position for position, step in enumerate(location) if isinstance(step, int)), None)
    return (
        location if position is None else (*location[:position], location[position] + start, *location[position + 1 :])
    )


def _path(location: tuple[Any, ...]) -> str:
    """Format a location as `messages[0].content`, without pydantic's names for members of a union."""
    path = ""
    for position, step in enumerate(location):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not position or (step.replace("_", "").isalnum() and step.islower() and step not in UNION_MEMBERS):
            path += f".{step}" if path else step
    return path[:200] or "body"


UNION_MEMBERS = {
    *("str", "int", "text", "json_object", "tool_use", "tool_result"),
    *("message", "function_call_output"),
    *("system", "developer", "user", "assistant", "tool", "function"),
}
