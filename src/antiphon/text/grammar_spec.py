"""`GrammarSpec`: the form of a request's answer, validated before anything compiles it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeGuard

from antiphon.errors import InvalidRequestError
from antiphon.text.gbnf import lark_from_gbnf

MAX_SCHEMA_BYTES = 65_536
MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_OBJECTS = 2_048
#: Maximum sum of all `multipleOf` of a schema, each without its decimal point: dividing takes a state per remainder.
MAX_MULTIPLES = 100_000
MAX_REGEX_BYTES = 8_192
MAX_GRAMMAR_BYTES = 16_384
MAX_GBNF_BYTES = 65_536
MAX_WHITESPACE_BYTES = 256
MAX_CHOICES = 4_096
#: Maximum repetition count in a regex or grammar: more than an answer has tokens.
MAX_REPETITIONS = 100_000
#: Cap of a count or product of counts, so that errors can print it.
LARGEST_COUNT = 10**18
#: `{n}`, `{n,}`, `{n,m}` and Lark's `~n` and `~n..m`.
REPETITION = re.compile(r"\{\s*([0-9]+)\s*(?:,\s*([0-9]*))?\s*\}|~\s*([0-9]+)(?:\s*\.\.\s*([0-9]+))?")
#: Parts that decide the nesting of counts: escapes, character classes, groups, counts, and signs after them.
NESTING = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(|(?:\)?(?P<count>\{[0-9, ]+\}|~ *[0-9.]+)|\))[?*+]*", re.DOTALL)
MAX_CHOICE_BYTES = 65_536

#: Fields of which exactly one is set.
FORMS = ("json_schema", "json_object", "regex", "choice", "grammar", "gbnf")
#: JSON schemas embedded in a grammar, each on one line.
SCHEMAS = re.compile(r"%json \{.*\}")

#: Schema key that sets options of the grammar compiler, such as unbounded whitespace. Requests must not set it.
OPTIONS_KEY = "x-guidance"


class SchemaClass(Protocol):
    """A class that states its JSON schema, such as every subclass of pydantic's `BaseModel`."""

    def model_json_schema(self) -> dict[str, Any]: ...


# A request in a message to the engine process holds the schema itself, so the decoder knows no classes.
if TYPE_CHECKING:
    JsonSchema = Mapping[str, Any] | str | SchemaClass
else:
    JsonSchema = Mapping[str, Any] | str


@dataclass(frozen=True)
class GrammarSpec:
    """The form that an answer must take. Exactly one of the fields is set.

    Raises `InvalidRequestError` for a wrong value; faults that only the grammar's compiler finds are raised by the
    request.

    - `json_schema`: a JSON schema, as an object, as its text or as a pydantic class; the answer is a document that it
      accepts.
    - `json_object`: any JSON object.
    - `regex`: a regular expression (without look-around and back-references) that the whole answer matches.
    - `choice`: one of these strings.
    - `grammar`: a context-free grammar in Lark's notation, beginning at its rule `start`.
    - `gbnf`: a context-free grammar in llama.cpp's notation, beginning at its rule `root`.

    `whitespace_pattern`, with JSON, is a regular expression for the blanks between its parts; "" allows none.
    """

    json_schema: JsonSchema | None = None
    json_object: bool = False
    regex: str | None = None
    choice: tuple[str, ...] | None = None
    grammar: str | None = None
    gbnf: str | None = None
    whitespace_pattern: str | None = None

    def __post_init__(self) -> None:
        if is_schema_class(self.json_schema):
            object.__setattr__(self, "json_schema", self.json_schema.model_json_schema())
        elif isinstance(self.json_schema, type):
            raise InvalidRequestError(
                f"json_schema is the class {self.json_schema.__name__}; a class must be pydantic's"
            )
        if isinstance(self.choice, list):
            object.__setattr__(self, "choice", tuple(self.choice))
        names = [name for name in FORMS if getattr(self, name) not in (None, False)]
        if len(names) != 1:
            found = " and ".join(names) or "none"
            raise InvalidRequestError(f"structured output takes exactly one of {', '.join(FORMS)}; found {found}")
        if self.json_schema is not None:
            _check_schema(self.schema_text)
        elif self.regex is not None:
            _check_text("regex", self.regex, MAX_REGEX_BYTES)
            _check_repetitions("regex", self.regex)
        elif self.grammar is not None:
            _check_grammar(self.grammar)
            _check_repetitions("grammar", self.grammar)
        elif self.gbnf is not None:
            _check_text("grammar", self.gbnf, MAX_GBNF_BYTES)
            lark_from_gbnf(self.gbnf)
        elif self.choice is not None:
            _check_choice(self.choice)
        if self.whitespace_pattern is not None:
            if self.json_schema is None and not self.json_object:
                raise InvalidRequestError("whitespace_pattern goes with a JSON schema or object")
            _check_text("whitespace_pattern", self.whitespace_pattern, MAX_WHITESPACE_BYTES)
            _check_repetitions("whitespace_pattern", self.whitespace_pattern)

    @property
    def schema_text(self) -> str:
        """The JSON schema as text."""
        if self.json_object:
            return '{"type": "object"}'
        if isinstance(self.json_schema, str):
            return self.json_schema
        try:
            return json.dumps(self.json_schema, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequestError(f"json_schema cannot be written as JSON: {_brief(error)}") from None

    @property
    def kind(self) -> str:
        """The name of the field that is set, as errors print it."""
        if self.json_object or self.json_schema is not None:
            return "JSON schema"
        if self.regex is not None:
            return "regex"
        return "choice" if self.choice is not None else "grammar"


#: The form of an answer, or a pydantic class that the answer is a document of.
Grammar = GrammarSpec | SchemaClass


def is_schema_class(value: object) -> TypeGuard[SchemaClass]:
    return isinstance(value, type) and hasattr(value, "model_json_schema")


def as_grammar(grammar: Grammar | None) -> GrammarSpec | None:
    """Return the form of an answer; a class stands for its JSON schema."""
    if grammar is None or isinstance(grammar, GrammarSpec):
        return grammar
    return GrammarSpec(json_schema=grammar)


def _check_text(name: str, text: object, limit: int) -> None:
    if not isinstance(text, str):
        raise InvalidRequestError(f"{name} is {type(text).__name__}, not a string")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{name} has a lone surrogate at character {error.start}") from None
    if size > limit:
        raise InvalidRequestError(f"{name} has {size:,} bytes; at most {limit:,} are taken")


def _check_grammar(text: object) -> None:
    """Check the sizes of a grammar and of the JSON schemas in it, which together have the limit of a schema."""
    rules = SCHEMAS.sub("", text) if isinstance(text, str) else text
    _check_text("grammar", rules, MAX_GRAMMAR_BYTES)
    _check_text("grammar", text, MAX_GRAMMAR_BYTES + MAX_SCHEMA_BYTES)


def _check_repetitions(name: str, text: str) -> None:
    """Reject repetition counts longer than any answer, including products of nested counts."""
    most = max((int(digits[:18]) for found in REPETITION.findall(text) for digits in found if digits), default=0)
    most = max(most, _nested_repetitions(text))
    if most > MAX_REPETITIONS:
        raise InvalidRequestError(f"{name} repeats something {most:,} times; at most {MAX_REPETITIONS:,} are taken")


def _nested_repetitions(text: str) -> int:
    """Return the largest product of a count and the counts it repeats: in its parentheses, or right before it."""
    open_groups = [1]
    chained, end = 1, -1  # product of the last count, and its end in the text
    for found in NESTING.finditer(text):
        piece = found[0]
        if piece == "(":
            open_groups.append(1)
        elif piece[0] == ")" or found["count"] is not None:
            inner = chained if found.start() == end else 1
            if piece[0] == ")" and len(open_groups) > 1:
                inner = open_groups.pop()
            digits = [int(number[:18]) for number in re.findall("[0-9]+", found["count"] or "")]
            chained, end = min(inner * max(digits, default=1), LARGEST_COUNT), found.end()
            open_groups[-1] = max(open_groups[-1], chained)
    return max(open_groups)


def _check_choice(choice: object) -> None:
    if not isinstance(choice, tuple) or not choice:
        raise InvalidRequestError("choice must be a non-empty tuple of strings")
    if len(choice) > MAX_CHOICES:
        raise InvalidRequestError(f"choice has {len(choice):,} strings; at most {MAX_CHOICES:,} are taken")
    for index, text in enumerate(choice):
        _check_text(f"choice[{index}]", text, MAX_CHOICE_BYTES)
        if not text:
            raise InvalidRequestError(f"choice[{index}] is empty")
    size = sum(len(text.encode()) for text in choice)
    if size > MAX_CHOICE_BYTES:
        raise InvalidRequestError(f"choice has {size:,} bytes in all; at most {MAX_CHOICE_BYTES:,} are taken")


def _check_schema(text: str) -> None:
    """Check size, depth, and keywords whose cost grows with their value; without recursion."""
    _check_text("json_schema", text, MAX_SCHEMA_BYTES)
    try:
        schema = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidRequestError(f"json_schema is nested more than {MAX_SCHEMA_DEPTH} levels deep") from None
    except ValueError as error:
        raise InvalidRequestError(f"json_schema is not JSON: {_brief(error)}") from None
    if not isinstance(schema, dict):
        raise InvalidRequestError(f"json_schema must be a JSON object, not {type(schema).__name__}")
    if OPTIONS_KEY in schema:
        raise InvalidRequestError(f"json_schema has {OPTIONS_KEY!r}, which a request cannot set")
    num_objects = 0
    multiples = 0
    level: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_DEPTH):
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                num_objects += 1
                multiples += _multiple(value.get("multipleOf"))
                _check_patterns(value)
                deeper.extend(value.values())
            else:
                deeper.extend(value)
        level = [value for value in deeper if isinstance(value, dict | list)]
    if level:
        raise InvalidRequestError(f"json_schema is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    if num_objects > MAX_SCHEMA_OBJECTS:
        raise InvalidRequestError(
            f"json_schema has {num_objects:,} objects inside it; at most {MAX_SCHEMA_OBJECTS:,} are taken"
        )
    if multiples > MAX_MULTIPLES:
        raise InvalidRequestError(
            f"json_schema has multipleOf up to {multiples:,} in all, counted without decimal points; "
            f"at most {MAX_MULTIPLES:,} is taken"
        )


def _check_patterns(schema: dict[str, Any]) -> None:
    """Check the repetition counts of the regular expressions in one object of a schema."""
    properties = schema.get("patternProperties")
    for pattern in [schema.get("pattern"), *(properties if isinstance(properties, dict) else ())]:
        if isinstance(pattern, str):
            _check_repetitions("a pattern of json_schema", pattern)


def _multiple(value: object) -> int:
    """Return the number without its decimal point and trailing zeros (25 for 0.25), or 0 for other types."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    digits = "".join(map(str, Decimal(str(value)).as_tuple().digits))
    return int(digits[:32])


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _brief(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
