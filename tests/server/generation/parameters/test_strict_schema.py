"""Strict schemas are closed as OpenAI closes them, and annotations cost no bytes of a grammar."""

from __future__ import annotations

from typing import Any

from antiphon.server.generation.parameters.strict_schema import closed, without_annotations, without_extras

OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": True},
        "list": {"type": "array", "items": {"type": "object", "properties": {"c": {}}}},
        "either": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"d": {}}, "required": []}]},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "empty": {"type": ["object", "null"]},
        "all": {"allOf": [{"properties": {"e": {}}}, {"properties": {"f": {}}}]},
        "reference": {"$ref": "#/$defs/shared"},
    },
    "required": ["a"],
    "$defs": {"shared": {"type": "object", "properties": {"g": {}}}},
}


def test_objects_have_exactly_their_properties() -> None:
    made = closed(OPEN)
    properties = made["properties"]
    assert made["required"] == list(OPEN["properties"]) and made["additionalProperties"] is False
    for part, name in (
        (properties["a"], "b"),
        (properties["list"]["items"], "c"),
        (properties["either"]["anyOf"][1], "d"),
        (made["$defs"]["shared"], "g"),
    ):
        assert part["required"] == [name] and part["additionalProperties"] is False
    assert properties["empty"]["additionalProperties"] is False
    assert properties["map"] == OPEN["properties"]["map"] and properties["all"] == OPEN["properties"]["all"]
    assert properties["reference"] == OPEN["properties"]["reference"] and OPEN["required"] == ["a"]


def test_undeclared_properties_are_refused_where_nothing_is_said() -> None:
    made = without_extras(OPEN)
    assert made["additionalProperties"] is False and made["required"] == ["a"]
    assert made["properties"]["a"]["additionalProperties"] is True
    assert made["properties"]["list"]["items"]["additionalProperties"] is False
    assert made["properties"]["all"] == OPEN["properties"]["all"]


def test_annotations_go_and_properties_of_their_names_stay() -> None:
    schema = {
        "title": "T",
        "properties": {"description": {"description": "x", "type": "string"}, "title": {"default": 1}},
        "allOf": [{"title": "x", "minProperties": 1}],
        "enum": [{"title": "value"}],
        "propertyNames": {"type": "string"},
    }
    assert without_annotations(schema) == {
        "properties": {"description": {"type": "string"}, "title": {}},
        "allOf": [{"minProperties": 1}],
        "enum": [{"title": "value"}],
    }
