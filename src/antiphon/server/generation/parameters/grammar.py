"""Constraints on the output: a JSON schema, a regular expression, a choice or a grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from antiphon.errors import InvalidRequestError
from antiphon.server.generation.parameters.peer_parameters import SchemaSource, StructuredOutputs
from antiphon.server.generation.parameters.request_schemas import (
    GenerateBody,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
)
from antiphon.server.generation.parameters.strict_schema import closed, without_extras
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.text.gbnf import is_gbnf
from antiphon.text.grammar_spec import GrammarSpec

Fields = dict[str, Any]


def grammar_of(body: GenerateBody) -> GrammarSpec | None:
    """Return the grammar that the request asks for, or None. Raise if two parameters ask for different ones."""
    asked = dict(_asked(body))
    for param, fields in asked.items():
        for other in asked:
            if asked[other] != fields:
                raise invalid(f"{param} and {other} were given; only one is allowed", param)
    for param, fields in asked.items():
        return checked_grammar(param, **fields)
    return None


def _asked(body: GenerateBody) -> Iterator[tuple[str, Fields]]:
    """Yield each constraint with its parameter's name."""
    form = body.response_format
    if isinstance(form, JsonObjectFormat):
        yield "response_format", dict(json_object=True) if form.schema_ is None else _schema(form.schema_)
    elif isinstance(form, JsonSchemaFormat):
        yield "response_format", dict(json_schema=_named_schema(form.json_schema))
    blanks = body.guided_whitespace_pattern
    if body.guided_json is not None:
        yield "guided_json", _schema(body.guided_json) | ({} if blanks is None else dict(whitespace_pattern=blanks))
    elif blanks is not None:
        raise invalid("guided_whitespace_pattern requires guided_json", "guided_whitespace_pattern")
    if body.guided_regex is not None:
        yield "guided_regex", dict(regex=body.guided_regex)
    if body.guided_choice is not None:
        yield "guided_choice", dict(choice=tuple(body.guided_choice))
    if body.guided_grammar is not None:
        yield "guided_grammar", _grammar(body.guided_grammar)
    if body.json_schema is not None:
        yield "json_schema", _schema(body.json_schema)
    if body.grammar:
        yield "grammar", dict(gbnf=body.grammar)
    if body.structured_outputs is not None:
        yield from _structured(body.structured_outputs)


def _structured(outputs: StructuredOutputs) -> Iterator[tuple[str, Fields]]:
    name = "structured_outputs"
    if outputs.structural_tag is not None:
        message = "structured_outputs.structural_tag is not supported; use grammar, json, regex or choice"
        raise invalid(message, f"{name}.structural_tag", "unsupported_value")
    blanks = "" if outputs.disable_any_whitespace else outputs.whitespace_pattern
    style = {} if blanks is None else dict(whitespace_pattern=blanks)
    found: list[tuple[str, Fields]] = []
    if outputs.json_ is not None:
        schema = _schema(outputs.json_)
        if outputs.disable_additional_properties:
            schema["json_schema"] = _closed_text(schema["json_schema"])
        found.append((f"{name}.json", schema | style))
    if outputs.json_object:
        found.append((f"{name}.json_object", dict(json_object=True) | style))
    if outputs.regex is not None:
        found.append((f"{name}.regex", dict(regex=outputs.regex)))
    if outputs.choice is not None:
        found.append((f"{name}.choice", dict(choice=tuple(outputs.choice))))
    if outputs.grammar is not None:
        found.append((f"{name}.grammar", _grammar(outputs.grammar)))
    if len(found) > 1:
        raise invalid(f"{' and '.join(param for param, _ in found)} were given; only one is allowed", name)
    if not found:
        raise invalid("structured_outputs has none of json, regex, choice, grammar and json_object", name)
    yield found[0]


def _schema(schema: SchemaSource) -> Fields:
    return dict(json_schema=schema if isinstance(schema, str) else json.dumps(schema))


def _grammar(text: str) -> Fields:
    return dict(gbnf=text) if is_gbnf(text) else dict(grammar=text)


def _closed_text(text: str) -> str:
    try:
        schema = json.loads(text)
        return json.dumps(without_extras(schema)) if isinstance(schema, dict) else text
    except (ValueError, RecursionError):
        return text  # the check of the schema reports the error


def _named_schema(named: NamedSchema) -> str:
    """Return the schema as text, closed if it is strict. The check before that quotes what the caller wrote."""
    text = json.dumps(named.schema_)
    if not named.strict:
        return text
    checked_grammar("response_format", json_schema=text)
    return json.dumps(closed(named.schema_))


def checked_grammar(param: str, **fields: Any) -> GrammarSpec:
    """Build a grammar. Raise `ApiError` for this parameter if it is invalid, before the engine compiles it."""
    try:
        return GrammarSpec(**fields)
    except InvalidRequestError as error:
        raise ApiError(400, str(error), code="invalid_schema", param=param) from None
