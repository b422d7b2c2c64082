"""Constraints on the output: a JSON schema, a regular expression, a choice or a grammar."""

from __future__ import annotations

import json

from antiphon.errors import InvalidRequestError
from antiphon.runtime.messages import GrammarFields
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.text.request_schemas import GenerateBody, JsonObjectFormat, JsonSchemaFormat
from antiphon.text.grammar_spec import GrammarSpec


def grammar_fields(body: GenerateBody) -> GrammarFields | None:
    """The grammar that the request asks for, if any."""
    form = body.response_format
    asked: dict[str, GrammarFields] = {}
    if isinstance(form, JsonObjectFormat):
        asked["response_format"] = GrammarFields(json_object=True)
    elif isinstance(form, JsonSchemaFormat):
        asked["response_format"] = GrammarFields(json_schema=json.dumps(form.json_schema.schema_))
    if body.guided_json is not None:
        asked["guided_json"] = GrammarFields(json_schema=json.dumps(body.guided_json))
    if body.guided_regex is not None:
        asked["guided_regex"] = GrammarFields(regex=body.guided_regex)
    if body.guided_choice is not None:
        asked["guided_choice"] = GrammarFields(choice=body.guided_choice)
    if body.guided_grammar is not None:
        asked["guided_grammar"] = GrammarFields(grammar=body.guided_grammar)
    if len(asked) > 1:
        raise invalid(f"{' and '.join(asked)} were given; only one is allowed", next(iter(asked)))
    for param, fields in asked.items():
        check_grammar(fields, param)
        return fields
    return None


def check_grammar(fields: GrammarFields, param: str) -> None:
    """Reject an invalid grammar before the engine compiles it."""
    choice = None if fields.choice is None else tuple(fields.choice)
    try:
        GrammarSpec(fields.json_schema, fields.json_object, fields.regex, choice, fields.grammar)
    except InvalidRequestError as error:
        raise ApiError(400, str(error), code="invalid_schema", param=param) from None
