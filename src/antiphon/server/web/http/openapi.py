"""The OpenAPI document. Handlers read request bodies themselves, so routes declare them: FastAPI cannot know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.routing import Route

from antiphon import __version__
from antiphon.server.web.http.error_formats import error_format
from antiphon.server.web.http.schemas import AnswerBody

Handler = TypeVar("Handler", bound=Callable[..., Any])
FORM = "multipart/form-data"
TEMPLATE = "#/components/schemas/{model}"
#: Name of the attribute in which a handler keeps its `RouteSchemas`.
ATTRIBUTE = "route_schemas"


@dataclass(frozen=True)
class RouteSchemas:
    """Schemas of a route's request body and answer, whether it can stream events, and its other content types.

    A decorator that declares these for a handler. It stands below the decorators of the routes.
    """

    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    can_stream: bool = False
    body_type: str = "application/json"
    other_types: tuple[str, ...] = ()
    #: Whether a 503 has the answer's schema too.
    reports_unready: bool = False

    def __call__(self, handler: Handler) -> Handler:
        setattr(handler, ATTRIBUTE, self)
        return handler


described = RouteSchemas


def schemas_of(route: Route) -> RouteSchemas | None:
    found: RouteSchemas | None = getattr(route.endpoint, ATTRIBUTE, None)
    return found


def document(app: FastAPI, routes: Sequence[Route]) -> dict[str, Any]:
    declared = {
        (method.lower(), route.path_format): schemas
        for route in routes
        if route.include_in_schema and (schemas := schemas_of(route)) is not None
        for method in route.methods or ()
    }
    pages = get_openapi(title="Antiphon", version=__version__, routes=app.routes)
    failures = {path: error_format(path, {}).schema for path in pages["paths"]}
    answers = [schemas.answer for schemas in declared.values() if schemas.answer is not None]
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (schemas.body, "validation") for schemas in declared.values() if schemas.body is not None
    ]
    wanted += [(answer, "serialization") for answer in dict.fromkeys([*answers, *failures.values()])]
    references, definitions = models_json_schema(wanted, ref_template=TEMPLATE)
    schemas_by_name = definitions["$defs"]
    config = app.state.serving.config
    if not config.is_strict:
        _open(schemas_by_name)
    pages["components"] = {"schemas": schemas_by_name}
    if config.keys is not None:
        pages["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        pages["security"] = [{"key": []}]
    for path, methods in pages["paths"].items():
        failure = _json(references[failures[path], "serialization"])
        for method, page in methods.items():
            schemas = declared.get((method, path))
            responses: dict[str, Any] = {"4XX": {"description": "The request's fault.", "content": failure}}
            responses["5XX"] = {"description": "The server's.", "content": failure}
            good: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
            if schemas is not None:
                good = {kind: {} for kind in schemas.other_types}
                if schemas.answer is not None:
                    good |= _json(references[schemas.answer, "serialization"])
                if schemas.body is not None:
                    content = _content(references[schemas.body, "validation"], schemas.body_type)
                    page["requestBody"] = {"required": True, "content": content}
                if schemas.can_stream:
                    good["text/event-stream"] = {}
                if schemas.reports_unready:
                    responses["503"] = {"description": "Not ready, and why.", "content": good}
            page["responses"] = {"200": {"description": "The answer.", "content": good}, **responses}
    return pages


def _open(schemas: dict[str, Any]) -> None:
    """Allow unknown fields in request schemas, since they are ignored. Answers have only the fields that they name."""
    answers = {answer.__name__ for answer in _subclasses(AnswerBody)}
    for name, schema in schemas.items():
        if name not in answers and schema.get("additionalProperties") is False:
            del schema["additionalProperties"]


def _subclasses(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for found in base.__subclasses__():
        yield found
        yield from _subclasses(found)


def _json(schema: Any) -> dict[str, Any]:
    return _content(schema, "application/json")


def _content(schema: Any, kind: str) -> dict[str, Any]:
    return {kind: {"schema": schema}}
