"""JSON schemas for grammars: closed as OpenAI closes strict ones, and without keywords that constrain nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: JSON schema, a dictionary because of its many keywords.
JsonSchema = dict[str, Any]

ANNOTATIONS = frozenset(
    {"title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}
)
#: Keywords whose value is a schema, a list of schemas, or schemas by name.
SINGLE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
LISTED = frozenset({"anyOf", "oneOf", "prefixItems", "items"})
NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})


def closed(schema: JsonSchema) -> JsonSchema:
    """Return the schema with objects that require all their properties and allow no others.

    Parts of an `allOf` stay open, since no value could match several closed ones, as do objects that only have a schema
    for any property.
    """
    return _rebuilt(schema, _close)


def without_extras(schema: JsonSchema) -> JsonSchema:
    """Return the schema without further properties in objects that list some, unless it mentions further ones."""
    return _rebuilt(schema, _refuse_extras)


def without_annotations(schema: JsonSchema) -> JsonSchema:
    """Return the same schema in fewer bytes, without annotations."""
    return _rebuilt(schema, _drop_annotations, True)


def _drop_annotations(schema: JsonSchema) -> JsonSchema:
    """Remove keywords that constrain nothing, including string names of properties: all names are strings."""
    kept = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if kept.get("propertyNames") in ({}, {"type": "string"}):
        del kept["propertyNames"]
    return kept


def _refuse_extras(schema: JsonSchema) -> JsonSchema:
    says = any(key in schema for key in ("additionalProperties", "patternProperties", "allOf", "unevaluatedProperties"))
    has_properties = isinstance(schema.get("properties"), dict)
    return {**schema, "additionalProperties": False} if has_properties and not says else schema


def _close(schema: JsonSchema) -> JsonSchema:
    properties = schema.get("properties")
    if isinstance(properties, dict) and "allOf" not in schema:
        return {**schema, "required": list(properties), "additionalProperties": False}
    kinds = schema.get("type")
    is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    is_open = any(key in schema for key in ("additionalProperties", "patternProperties", "allOf", "$ref", "anyOf"))
    return {**schema, "additionalProperties": False} if is_object and not is_open else schema


def _rebuilt(schema: JsonSchema, change: Callable[[JsonSchema], JsonSchema], enters_all_of: bool = False) -> JsonSchema:
    """Copy a schema and change it from the inside out. Its depth must have been checked."""

    def rebuilt_part(part: Any) -> Any:
        return _rebuilt(part, change, enters_all_of) if isinstance(part, dict) else part

    made: JsonSchema = {}
    for key, value in schema.items():
        if isinstance(value, dict) and key in SINGLE:
            made[key] = rebuilt_part(value)
        elif isinstance(value, dict) and key in NAMED:
            made[key] = {name: rebuilt_part(part) for name, part in value.items()}
        elif isinstance(value, list) and (key in LISTED or (key == "allOf" and enters_all_of)):
            made[key] = [rebuilt_part(part) for part in value]
        else:
            made[key] = value
    return change(made)
