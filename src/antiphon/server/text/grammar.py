"""Constraints on the output: a JSON schema, a regular expression, a choice or a grammar."""

from __future__ import annotations

import json
from typing import Any

from antiphon.errors import InvalidRequestError
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.text.request_schemas import GenerateBody, JsonObjectFormat, JsonSchemaFormat, NamedSchema
from antiphon.server.text.strict_schema import closed
from antiphon.text.grammar_spec import GrammarSpec


def grammar_of(body: GenerateBody) -> GrammarSpec | None:
    """The grammar that the request asks for, if any."""
    form = body.response_format
    asked: dict[str, dict[str, Any]] = {}
    if isinstance(form, JsonObjectFormat):
        asked["response_format"] = dict(json_object=True)
    elif isinstance(form, JsonSchemaFormat):
        asked["response_format"] = dict(json_schema=_schema(form.json_schema))
    if body.guided_json is not None:
        asked["guided_json"] = dict(json_schema=json.dumps(body.guided_json))
    if body.guided_regex is not None:
        asked["guided_regex"] = dict(regex=body.guided_regex)
    if body.guided_choice is not None:
        asked["guided_choice"] = dict(choice=tuple(body.guided_choice))
    if body.guided_grammar is not None:
        asked["guided_grammar"] = dict(grammar=body.guided_grammar)
    if len(asked) > 1:
        raise invalid(f"{' and '.join(asked)} were given; only one is allowed", next(iter(asked)))
    for param, fields in asked.items():
        return checked_grammar(param, **fields)
    return None


def _schema(named: NamedSchema) -> str:
    """Closed if it is strict. It is checked as it was given, so that errors are about what the caller wrote."""
    text = json.dumps(named.schema_)
    if not named.strict:
        return text
    checked_grammar("response_format", json_schema=text)
    return json.dumps(closed(named.schema_))


def checked_grammar(param: str, **fields: Any) -> GrammarSpec:
    """An invalid grammar is rejected before the engine compiles it, as a fault of that parameter."""
    try:
        return GrammarSpec(**fields)
    except InvalidRequestError as error:
        raise ApiError(400, str(error), code="invalid_schema", param=param) from None
