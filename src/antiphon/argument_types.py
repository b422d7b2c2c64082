"""Types of arguments and of the fields of options, checked where a caller gives them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, StrEnum
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from antiphon.errors import InvalidRequestError

MAX_SHOWN = 60
#: Words for a value of a type, in the singular and in the plural.
NAMES = {
    bool: ("True or False", "booleans"),
    float: ("a number", "numbers"),
    int: ("an integer", "integers"),
    str: ("a string", "strings"),
    NoneType: ("None", "None"),
}


@dataclasses.dataclass(frozen=True)
class Expected:
    """A test of values, and the words for the values that pass it: one of them, and several."""

    accepts: Callable[[Any], bool]
    one: str
    several: str


def check_type(name: str, value: object, expected: Expected) -> None:
    """Reject a value of another type than expected, with its name, the value and what it must be."""
    if not expected.accepts(value):
        raise InvalidRequestError(f"{name} is {shown(value)}; it must be {expected.one}")


def check_fields(options: Any) -> None:
    """Reject the first field of a dataclass whose value has another type than the field."""
    for name, expected in _fields(options.__class__):
        value = getattr(options, name)
        if not expected.accepts(value):
            check_type(name, value, expected)


def as_tuple(value: Any) -> Any:
    """Return a string as a tuple of one, a list as a tuple, and any other value unchanged."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def as_set(value: Any) -> Any:
    """Return a list, tuple or set of integers as a frozen set, and any other value unchanged."""
    is_several = isinstance(value, list | tuple | set) and all(isinstance(item, Integral) for item in value)
    return frozenset(value) if is_several else value


def shown(value: object) -> str:
    """Return a value for an error message: its beginning, and its type unless that is plain to see."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(getattr(value, "numpy", None)) or type(value).__name__ == "ndarray":
        return (
            f"a {type(value).__name__} of {getattr(value, 'dtype', '')} with shape {list(getattr(value, 'shape', ()))}"
        )
    text = " ".join(repr(value).split())
    text = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return f"{text} ({type(value).__name__})"


@cache
def _fields(options: type) -> tuple[tuple[str, Expected], ...]:
    hints = get_type_hints(options)
    return tuple((field.name, expected_of(hints[field.name])) for field in dataclasses.fields(options))


@cache
def expected_of(annotation: Any) -> Expected:
    """Return what values an annotation of a field accepts: plain types, enums, unions and containers of them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (UnionType, Union):
        parts = [expected_of(argument) for argument in arguments]
        *most, last = [part.one for part in parts]
        words = f"{', '.join(most)} or {last}"
        return Expected(lambda value: any(part.accepts(value) for part in parts), words, words)
    if origin in (tuple, frozenset, Sequence):  # a sequence has become a tuple by `as_tuple`
        each, kind = expected_of(arguments[0]), "set" if origin is frozenset else "tuple"
        kept = frozenset if origin is frozenset else tuple
        return Expected(
            lambda value: isinstance(value, kept) and all(map(each.accepts, value)),
            f"a {kind} of {each.several}",
            f"{kind}s of {each.several}",
        )
    if origin is Mapping:
        key, item = (expected_of(argument) for argument in arguments)
        return Expected(
            lambda value: (
                isinstance(value, Mapping) and all(map(key.accepts, value)) and all(map(item.accepts, value.values()))
            ),
            f"a mapping of {key.several} to {item.several}",
            f"mappings of {key.several} to {item.several}",
        )
    return _of_class(annotation)


def _of_class(kind: type) -> Expected:
    if kind is float or kind is int:
        abstract: Any = Real if kind is float else Integral
        return Expected(
            lambda value: type(value) is kind or (isinstance(value, abstract) and not isinstance(value, bool)),
            *NAMES[kind],
        )
    if issubclass(kind, Enum):
        words = f"{kind.__name__}.{f', {kind.__name__}.'.join(kind.__members__)}"
        if issubclass(kind, StrEnum):
            return Expected(lambda value: isinstance(value, kind), f"one of {words}", kind.__name__)
        values = frozenset(member.value for member in kind)
        return Expected(lambda value: isinstance(value, Integral) and value in values, f"one of {words}", kind.__name__)
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    one, several = NAMES.get(kind, (f"{article} {kind.__name__}", kind.__name__))
    return Expected(lambda value: isinstance(value, kind), one, several)
