"""Validation of a body that ignores fields outside its schema, or rejects them on a strict server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import invalid

Model = TypeVar("Model", bound=BaseModel)


def validate_known(model: type[Model], data: Any, context: RequestContext) -> Model:
    """Validate data against a schema, or raise a `ValidationError`.

    Unknown fields are removed and listed in the context, unless it is strict. They are found by a second validation, so
    a body without any costs nothing extra.
    """
    try:
        found = model.model_validate(data)
    except ValidationError:
        if context.is_strict:
            raise
    else:
        if context.is_strict:
            _check_maxima(found)
        return found
    body = model.model_validate(data, extra="allow")
    for path, owner, name, value in _unknown(body):
        refusal = getattr(type(owner), "unsupported", {}).get(name.removesuffix("[]"))
        if refusal is not None and refusal.asks_for_something(value):
            raise invalid(f"{path}: {refusal.reason}", path, "unsupported_value")
        context.ignored.add(path)
    return body


def _check_maxima(body: BaseModel) -> None:
    for name, most in getattr(type(body), "strict_maxima", {}).items():
        value = getattr(body, name)
        if value is not None and value > most:
            raise invalid(f"{name} is {value:g}; a strict server accepts at most {most:g}", name)


def _unknown(body: BaseModel) -> Iterator[tuple[str, BaseModel, str, Any]]:
    """Remove unknown fields from an object and all inside it; yield the path, owner, name and value of each."""
    stack: list[tuple[str, Any]] = [("", body)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list):
            stack += [(f"{path}[]", item) for item in value if isinstance(item, BaseModel | list)]
            continue
        extra, value.__pydantic_extra__ = value.__pydantic_extra__, None
        prefix = f"{path}." if path else ""
        for name, given in (extra or {}).items():
            yield prefix + name, value, name, given
        fields = type(value).model_fields
        for name, given in value.__dict__.items():
            if isinstance(given, BaseModel | list):
                stack.append((prefix + (fields[name].alias or name).removesuffix("[]"), given))
