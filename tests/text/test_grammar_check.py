"""Grammars that would compile for ever end with their process, and are errors of their requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.text.grammar_check import MODULE, GrammarChecks, is_plain
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.limited_process import LimitedProcesses

#: An intersection of many expressions, whose states are subsets of all their states.
INTERSECTION = "start: T\nT: " + " & ".join(f"/(.|\\n)*(a|b){{{n}}}(.|\\n)*/" for n in range(1, 60))
BOMBS: dict[str, dict[str, Any]] = {
    "intersection": {"grammar": INTERSECTION},
    "repetition of a letter": {"grammar": "start: /a{1,1000000}/"},
    "nested repetitions": {"grammar": "start: /((a{1000}){1000}){1000}/"},
    "repetition of a rule": {"grammar": 'start: a{1,1000000}\na: "x"'},
    "nested regex": {"regex": "((a{1000}){1000}){1000}"},
    "nested pattern": {"json_schema": {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"}},
    "nested parentheses": {"grammar": "start: " + "(" * 5000 + '"x"' + ")" * 5000},
    "product of allOf": {
        "json_schema": {"allOf": [{"anyOf": [{"const": n + m} for n in range(20)]} for m in range(20)]}
    },
    "circle": {"json_schema": {"$ref": "#/$defs/a", "allOf": [], "$defs": {"a": {"$ref": "#/$defs/a"}}}},
}
GOOD: dict[str, dict[str, Any]] = {
    "regex": {"regex": "[a-z]{1,20}@[a-z]{1,20}"},
    "grammar": {"grammar": 'start: "a" b*\nb: /[0-9]+/'},
    "pattern": {"json_schema": {"type": "string", "pattern": "^[a-z]+$"}},
}


@pytest.fixture(scope="module")
def processes() -> Iterator[LimitedProcesses]:
    made = LimitedProcesses(MODULE, 1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def checks(processes: LimitedProcesses) -> GrammarChecks:
    """With the limit of a server."""
    return GrammarChecks(processes)


@pytest.fixture(scope="module")
def brief_checks(processes: LimitedProcesses) -> GrammarChecks:
    """For what never ends."""
    return GrammarChecks(processes, seconds=1.0)


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_errors_and_leave_nothing_running(brief_checks: GrammarChecks, name: str) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(InvalidRequestError, match=r"too complex|not usable|satisfied|repeats something 1,000,000"):
        brief_checks.check(GrammarSpec(**BOMBS[name]))
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("name", GOOD)
def test_ordinary_grammars_pass(checks: GrammarChecks, name: str) -> None:
    spec = GrammarSpec(**GOOD[name])
    assert not is_plain(spec)
    checks.check(spec)
    checks.check(spec)


def test_plain_forms_need_no_process(checks: GrammarChecks) -> None:
    assert is_plain(GrammarSpec(json_object=True))
    assert is_plain(GrammarSpec(choice=("yes", "no")))
    assert is_plain(GrammarSpec(json_schema={"type": "object", "properties": {"a": {"type": "string"}}}))


def test_faults_are_named(checks: GrammarChecks) -> None:
    with pytest.raises(InvalidRequestError, match="the grammar is not usable"):
        checks.check(GrammarSpec(grammar="start: nosuchrule"))


@pytest.mark.parametrize(
    "count",
    [
        (r"((a{1000}){1000}){1000}", "1,000,000,000"),
        (r"(a{400}|b){300}", "120,000"),
        (r"a{400}{300}", "120,000"),
        (r"a{400}?{300}", "120,000"),
        (r"(a{40})+{3000}", "120,000"),
    ],
)
def test_nested_repetitions_are_multiplied(count: tuple[str, str]) -> None:
    text, product = count
    with pytest.raises(InvalidRequestError, match=f"repeats something {product} times; at most 100,000"):
        GrammarSpec(regex=text)
    for schema in ({"pattern": text}, {"properties": {"a": {"patternProperties": {text: True}}}}):
        with pytest.raises(InvalidRequestError, match=f"a pattern of json_schema repeats something {product} times"):
            GrammarSpec(json_schema=schema)
    with pytest.raises(InvalidRequestError, match=f"whitespace_pattern repeats something {product} times"):
        GrammarSpec(json_object=True, whitespace_pattern=text)
    GrammarSpec(json_schema={"properties": {"pattern": {"type": "string"}, "patternProperties": {"type": "object"}}})
    GrammarSpec(regex=r"(a{400}|\(b{9}){200}[(]{300}")


@pytest.mark.parametrize("text", ["a" + 700 * "{999999999}", 370 * "(" + "a" + 370 * "){999999999999999999}"])
def test_a_product_of_thousands_of_digits_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="repeats something 1,000,000,000,000,000,000 times"):
        GrammarSpec(regex=text)
