"""Twenty questions with schemas for their answers; every answer is bounded and fits in about 80 tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StructuredTask:
    name: str
    prompt: str
    schema: Mapping[str, Any]


def record(*, optional: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """Return a schema of an object with exactly these properties, all required except the `optional` ones."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def text(length: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": length}


def whole(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


def one_of(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def items(schema: Mapping[str, Any], low: int, high: int) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": low, "maxItems": high}


TRUTH = {"type": "boolean"}

TASKS = (
    StructuredTask(
        "person",
        "Describe a made-up person as JSON with the fields name, age and email.",
        record(
            name=text(24), age=whole(0, 120), email={"type": "string", "pattern": "^[a-z]{1,12}@[a-z]{1,10}\\.com$"}
        ),
    ),
    StructuredTask(
        "weather_call",
        "Call the function get_weather for the city of Paris, in degrees Celsius.",
        record(
            name={"const": "get_weather"},
            arguments=record(city=text(20), unit=one_of("celsius", "fahrenheit")),
        ),
    ),
    StructuredTask(
        "product_list",
        "List up to three products of a grocery shop with their prices, as JSON.",
        record(products=items(record(name=text(16), price={"type": "integer", "minimum": 1, "maximum": 999}), 1, 3)),
    ),
    StructuredTask(
        "sentiment",
        "Classify the sentiment of this review: 'The battery died after two days and nobody answered my mail.'",
        record(label=one_of("positive", "neutral", "negative"), confidence=one_of("low", "medium", "high")),
    ),
    StructuredTask(
        "coordinates",
        "Give the approximate latitude and longitude of Tokyo as whole degrees.",
        record(latitude=whole(-90, 90), longitude=whole(-180, 180)),
    ),
    StructuredTask(
        "server_config",
        "Write a configuration for a web server that listens on port 8080 with TLS switched on.",
        record(
            server=record(host=text(20), port=whole(1, 65535)),
            tls=record(enabled=TRUTH, version=one_of("1.2", "1.3")),
        ),
    ),
    StructuredTask(
        "recipe",
        "Give a very short pancake recipe as JSON: a title, at most four ingredients, and the minutes it takes.",
        record(title=text(24), ingredients=items(text(14), 1, 4), minutes=whole(1, 240)),
    ),
    StructuredTask(
        "calendar_event",
        "Make a calendar entry for a team meeting on 3 March 2025 at half past nine.",
        record(
            title=text(24),
            date={"type": "string", "format": "date"},
            time={"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
        ),
    ),
    StructuredTask(
        "colour",
        "Name a colour and give its red, green and blue parts from 0 to 255.",
        record(name=text(16), rgb=items(whole(0, 255), 3, 3)),
    ),
    StructuredTask(
        "book",
        "Name a famous novel with its author and the year it was published.",
        record(title=text(32), author=text(24), year=whole(1500, 2025)),
    ),
    StructuredTask(
        "ticket",
        "Turn this into a support ticket: 'I cannot log in since this morning, please help quickly!'",
        record(
            summary=text(40),
            category=one_of("login", "billing", "bug", "other"),
            priority=whole(1, 5),
            needs_reply=TRUTH,
        ),
    ),
    StructuredTask(
        "address",
        "Write a made-up postal address in Berlin as JSON.",
        record(
            street=text(20), number=whole(1, 400), postcode={"type": "string", "pattern": "^[0-9]{5}$"}, city=text(12)
        ),
    ),
    StructuredTask(
        "shape",
        "Describe a circle or a rectangle with its measures.",
        {
            "anyOf": [
                record(kind={"const": "circle"}, radius=whole(1, 100)),
                record(kind={"const": "rectangle"}, width=whole(1, 100), height=whole(1, 100)),
            ]
        },
    ),
    StructuredTask(
        "folder_tree",
        "Describe a small folder that holds at most two other folders.",
        {
            "$ref": "#/$defs/folder",
            "$defs": {
                "folder": record(name=text(12), folders=items({"$ref": "#/$defs/leaf"}, 0, 2)),
                "leaf": record(name=text(12), files=whole(0, 99)),
            },
        },
    ),
    StructuredTask(
        "movie_review",
        "Review a film of your choice in one short sentence and give it one to five stars.",
        record(optional=("spoiler",), film=text(24), stars=whole(1, 5), verdict=text(60), spoiler=TRUTH),
    ),
    StructuredTask(
        "unit_conversion",
        "How many metres are five kilometres? Answer with the value and the unit.",
        record(value={"type": "integer", "minimum": 0, "maximum": 100000}, unit=one_of("mm", "cm", "m", "km")),
    ),
    StructuredTask(
        "quiz_question",
        "Write one easy quiz question about animals with three answers and the index of the right one.",
        record(question=text(60), answers=items(text(14), 3, 3), correct=whole(0, 2)),
    ),
    StructuredTask(
        "translation",
        "Translate 'good morning' into French.",
        record(source=one_of("en"), target=one_of("fr"), text=text(30)),
    ),
    StructuredTask(
        "nullable_contact",
        "Give a contact named Ana who has a phone number but no fax.",
        record(
            name=text(16),
            phone={"type": ["string", "null"], "pattern": "^\\+?[0-9]{6,12}$"},
            fax={"type": ["string", "null"], "pattern": "^\\+?[0-9]{6,12}$"},
        ),
    ),
    StructuredTask(
        "version",
        "What would be the next minor release after version 1.4.2?",
        record(
            major=whole(0, 99),
            minor=whole(0, 99),
            patch=whole(0, 99),
            tag={"type": "string", "pattern": "^v[0-9.]{5,8}$"},
        ),
    ),
)
