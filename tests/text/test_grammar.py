"""Structured output: random answers under every kind of grammar, checked by other implementations of each."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from antiphon.errors import EngineError, InvalidRequestError, UnsupportedError
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_constraint import GrammarConstraint
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.tokenizer import Tokenizer
from antiphon.weights.formats.open import open_checkpoint
from support.text.random_walk import allowed, random_answer
from support.text.structured_schemas import TASKS, items, one_of, record, text, whole
from support.text.vocabularies import small_bpe, small_sentencepiece
from support.waiting import wait_until

PADDING = 23  # logits past the vocabulary, as models have them


@pytest.fixture(scope="module", params=["bpe", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    metadata = small_bpe()[0] if request.param == "bpe" else small_sentencepiece()[0]
    return tokenizer_from_gguf(metadata)


#: For tests in which the vocabulary makes no difference.
one_vocabulary = pytest.mark.parametrize("tokenizer", ["bpe"], indirect=True)


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size + PADDING)


@pytest.fixture(scope="module")
def answers(tokenizer: Tokenizer, compiler: GrammarCompiler) -> Callable[..., list[str]]:
    def finished(spec: GrammarSpec, count: int = 8) -> list[str]:
        found = []
        for seed in range(3 * count):
            answer = random_answer(compiler.compile(spec), tokenizer, random.Random(seed))
            if answer is not None:
                found.append(answer)
            if len(found) == count:
                return found
        raise AssertionError(f"{len(found)} of {3 * count} random answers ended")

    return finished


def take(constraint: GrammarConstraint, tokenizer: Tokenizer, answer: str) -> str:
    """Follow a text with whatever allowed tokens spell it; what of it was allowed."""
    done = b""
    data = answer.encode()
    while len(done) < len(data):
        choices = [token for token in allowed(constraint) if token not in tokenizer.special_ids]
        fitting = [token for token in choices if data[len(done) :].startswith(tokenizer.token_bytes(token))]
        if not fitting:
            break
        token = max(fitting, key=lambda token: len(tokenizer.token_bytes(token)))
        constraint.advance(token)
        done += tokenizer.token_bytes(token)
    return done.decode(errors="replace")


SCHEMAS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "string_length": {"type": "string", "minLength": 3, "maxLength": 7},
    "string_pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    "string_pattern_and_length": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
    "date": {"type": "string", "format": "date"},
    "integer_range": {"type": "integer", "minimum": -17, "maximum": 2049},
    "integer_exclusive": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 12},
    "integer_multiple": {"type": "integer", "multipleOf": 25, "minimum": 0, "maximum": 1000},
    "number_range": {"type": "number", "minimum": -1.5, "maximum": 2.25},
    "boolean_or_null": {"type": ["boolean", "null"]},
    "const": {"const": {"a": [1, "two", None, True]}},
    "enum": {"enum": ["red", "green", 3, None, False, 'quo"te', "naïve 色"]},
    "array_bounds": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    "array_prefix": {"type": "array", "prefixItems": [text(9), {"type": "null"}], "items": False, "minItems": 2},
    "object": record(name=text(10), age=whole(0, 120)),
    "object_optional": record(optional=("b", "d"), a=whole(0, 9), b=text(4), c=one_of("x", "y"), d=whole(0, 9)),
    "object_all_optional": record(optional=("a", "b", "c"), a=whole(0, 9), b=whole(0, 9), c=whole(0, 9)),
    "object_nested": record(outer=record(inner=record(leaf={"type": "null"}, list=items(record(x=whole(1, 3)), 0, 2)))),
    "object_open": {"type": "object", "properties": {"a": whole(0, 99)}, "additionalProperties": {"type": "null"}},
    "object_pattern": {**record(), "patternProperties": {"^k[0-9]$": {"type": "null"}}},
    "any_of": {"anyOf": [record(kind={"const": "a"}, x=whole(0, 5)), record(kind={"const": "b"}, y=text(3))]},
    "one_of": {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "integer"}, {"type": "null"}]},
    "one_of_tagged": {"oneOf": [record(kind={"const": "a"}, x=whole(0, 5)), record(kind={"const": "b"}, y=text(3))]},
    "all_of": {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 30}, {"multipleOf": 3}]},
    "definitions": {
        "$defs": {"point": record(x=whole(-9, 9), y=whole(-9, 9)), "name": text(6)},
        **record(name={"$ref": "#/$defs/name"}, from_={"$ref": "#/$defs/point"}, to={"$ref": "#/$defs/point"}),
    },
    "recursive": {
        "$defs": {"node": record(value=whole(0, 9), next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
        "$ref": "#/$defs/node",
    },
    "annotations": {"title": "T", "description": "d", "default": "x", "examples": ["y"], **text(3)},
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_json_schema(name: str, answers: Callable[..., list[str]]) -> None:
    schema = SCHEMAS[name]
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    found = answers(GrammarSpec(json_schema=schema))
    for answer in found:
        validator.validate(json.loads(answer))
    if name != "const":
        assert len(set(found)) > 1


def test_schema_as_text(answers: Callable[..., list[str]]) -> None:
    assert set(answers(GrammarSpec(json_schema='{"enum": [1, 2]}'))) == {"1", "2"}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_bounded_tasks_end(task: Any, tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """Even a random answer to these ends, so that a model's must."""
    jsonschema.Draft202012Validator.check_schema(task.schema)
    validator = jsonschema.Draft202012Validator(task.schema, format_checker=jsonschema.FormatChecker())
    for seed in range(2):
        constraint = compiler.compile(GrammarSpec(json_schema=task.schema))
        answer = random_answer(constraint, tokenizer, random.Random(seed), max_tokens=1000)
        assert answer is not None
        validator.validate(json.loads(answer))


def test_json_object(answers: Callable[..., list[str]]) -> None:
    assert all(isinstance(json.loads(answer), dict) for answer in answers(GrammarSpec(json_object=True)))


@pytest.mark.parametrize("spec", [GrammarSpec(json_object=True), GrammarSpec(json_schema=TASKS[0].schema)])
def test_whitespace_is_bounded(spec: GrammarSpec, tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """Outside strings a blank follows only a comma or a colon, and never a second one."""
    for answer, taken in {
        '{"name": "a", "age": 1': '{"name": "a", "age": 1',
        '{"name":"a","age":1': '{"name":"a","age":1',
        '{"name":  "a"': '{"name": ',
        '{"name": "a",  "age"': '{"name": "a", ',
        '{"name" : 1': '{"name"',
        '{ "name': "{",
        '{\n "name': "{",
        '{"name":\n"a"': '{"name":',
        ' {"name': "",
    }.items():
        assert take(compiler.compile(spec), tokenizer, answer) == taken


def test_nothing_follows_a_complete_document(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(GrammarSpec(json_object=True))
    assert take(constraint, tokenizer, "{}") == "{}"
    assert constraint.is_stopped
    assert set(allowed(constraint)) == tokenizer.eos_ids


@pytest.mark.parametrize(
    "pattern",
    [
        r"[a-f0-9]{8}-[a-f0-9]{4}",
        r"(yes|no)( indeed)?",
        r"^\+?\d{3,5}$",
        r"[^a-zé]{2,6}",
        r"(a/b|\\|\")*c",
        r"(?i)antiphon",
        r"\p{Lu}\p{Ll}{1,3}",
        r"色.散",
        r"(a|b){0,40}z",
    ],
)
def test_regex(pattern: str, answers: Callable[..., list[str]]) -> None:
    spelled = pattern.replace(r"\p{Lu}", "[^\\W\\d_]").replace(r"\p{Ll}", "[^\\W\\d_]")
    for answer in answers(GrammarSpec(regex=pattern)):
        assert re.fullmatch(spelled, answer), answer


def test_digits_are_ascii(answers: Callable[..., list[str]]) -> None:
    """As in JSON schema and JavaScript; other scripts' digits would surprise whoever reads the number."""
    assert all(answer.isascii() for answer in answers(GrammarSpec(regex=r"\d{3}")))
    assert all(
        answer.isascii() for answer in answers(GrammarSpec(json_schema={"type": "string", "pattern": r"^\d{3}$"}))
    )


@pytest.mark.parametrize("pattern", ["", "^$", "a?"])
def test_a_regex_that_matches_nothing_at_all(pattern: str, tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    assert tokenizer.eos_ids <= set(allowed(compiler.compile(GrammarSpec(regex=pattern))))


def test_choice(tokenizer: Tokenizer, compiler: GrammarCompiler, answers: Callable[..., list[str]]) -> None:
    choices = ("a", "ab", "abc", 'quo"te', "back\\slash", "new\nline", "naïve 色 😀", " blank", "/slash/", "\x7f\x01")
    spec = GrammarSpec(choice=choices)
    assert set(answers(spec)) <= set(choices)
    for choice in choices:
        constraint = compiler.compile(spec)
        assert take(constraint, tokenizer, choice) == choice
        assert tokenizer.eos_ids <= set(allowed(constraint))


@one_vocabulary
def test_many_choices(answers: Callable[..., list[str]]) -> None:
    choices = tuple(f"label {number * 7919}" for number in range(4000))
    assert set(answers(GrammarSpec(choice=choices))) <= set(choices)


def test_lark(answers: Callable[..., list[str]]) -> None:
    """Arithmetic, which Python can read."""
    grammar = """
    start: sum
    sum: product (("+" | "-") product)*
    product: atom ("*" atom)*
    atom: NUMBER | "(" sum ")"
    NUMBER: /[1-9][0-9]{0,2}/
    """
    for answer in answers(GrammarSpec(grammar=grammar)):
        assert isinstance(eval(answer, {"__builtins__": {}}), int)


@pytest.mark.parametrize("answer", ['{"name": "quick brown", "age": 30}', '{"name":"色は匂へど","age":7}'])
def test_natural_spellings_are_allowed(answer: str, tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(GrammarSpec(json_schema=record(name=text(20), age=whole(0, 99))))
    assert take(constraint, tokenizer, answer) == answer
    assert tokenizer.eos_ids <= set(allowed(constraint))


@pytest.mark.weights
@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b", "tinyllama-1.1b", "gemma-3-270m"])
def test_real_vocabularies(model: str, model_path: Callable[[str], Path]) -> None:
    tokenizer = tokenizer_from_gguf(open_checkpoint(model_path(model)).metadata)
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)
    for seed, task in enumerate(TASKS):
        constraint = compiler.compile(GrammarSpec(json_schema=task.schema))
        answer = random_answer(constraint, tokenizer, random.Random(seed), max_tokens=1000)
        assert answer is not None
        jsonschema.Draft202012Validator(task.schema).validate(json.loads(answer))


# -- the constraint -----------------------------------------------------------------------------------------------


def test_mask_shape(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """One bit per logit; special tokens and logits without a token are never allowed before the end."""
    constraint = compiler.compile(GrammarSpec(regex=r"x(.|\n)*"))
    mask = constraint.mask()
    assert mask.dtype == np.int32 and mask.shape == (-(-(tokenizer.vocab_size + PADDING) // 32),)
    take(constraint, tokenizer, "x")
    found = set(allowed(constraint))
    assert max(found) < tokenizer.vocab_size
    assert found & tokenizer.special_ids == tokenizer.eos_ids
    assert len(found) > 100


def test_logits_narrower_than_the_vocabulary(tokenizer: Tokenizer) -> None:
    narrow = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size - 40)
    constraint = narrow.compile(GrammarSpec(regex=r"(.|\n)*"))
    assert max(allowed(constraint)) < tokenizer.vocab_size - 40


def test_a_token_that_is_not_allowed(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(GrammarSpec(choice=("cat", "dog")))
    before = allowed(constraint)
    wrong = next(token for token in range(tokenizer.vocab_size) if token not in before)
    for token in (wrong, -1, tokenizer.vocab_size + PADDING, 10**9, *tokenizer.eos_ids):
        with pytest.raises(InvalidRequestError, match="no token is left"):
            constraint.advance(token)
    assert allowed(constraint) == before
    assert take(constraint, tokenizer, "dog") == "dog"


def test_the_end_can_be_taken_again(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(GrammarSpec(regex="a*"))
    end = min(tokenizer.eos_ids)
    assert not constraint.is_stopped
    constraint.advance(end)
    constraint.advance(end)
    assert constraint.is_stopped
    assert set(allowed(constraint)) == tokenizer.eos_ids


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """A token for each character."""
    ids = {tokenizer.token_bytes(token): token for token in range(tokenizer.vocab_size)}
    return [ids[character.encode()] for character in text]


def test_masks_of_a_draft_are_those_after_its_tokens(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """What a copy that takes the tokens would allow; the constraint itself stays where it is."""
    constraint = compiler.compile(GrammarSpec(json_schema='{"enum": ["abcabc", "abcdef", "xyz"]}'))
    first = constraint.mask().copy()
    tokens = spelled(tokenizer, '"abcd')
    assert constraint.num_allowed(tokens) == len(tokens)
    constraint.draft(tokens)
    copy = constraint.clone()
    for token, mask in zip(tokens, constraint.draft_masks(), strict=True):
        copy.advance(token)
        assert np.array_equal(mask, copy.mask())
    assert np.array_equal(constraint.mask(), first)
    assert constraint.num_allowed([*tokens, *spelled(tokenizer, "]")]) == len(tokens)
    constraint.advance(tokens[0])
    assert constraint.num_allowed(tokens[1:]) == len(tokens) - 1


def test_forced_tokens_spell_what_must_come(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    schema = '{"type": "object", "properties": {"surname": {"type": "integer"}}, "required": ["surname"]}'
    constraint = compiler.compile(GrammarSpec(json_schema=schema))
    forced = constraint.forced()
    text = b"".join(tokenizer.token_bytes(token) for token in forced)
    assert text and b'{"surname":'.startswith(text)
    assert constraint.num_allowed(forced) == len(forced)
    for token in forced:
        constraint.advance(token)
    choice = compiler.compile(GrammarSpec(choice=("yes", "no")))
    assert choice.forced() == []


def test_a_complete_answer_has_no_draft(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(GrammarSpec(choice=("a",)))
    constraint.advance(*spelled(tokenizer, "a"))
    assert constraint.forced() == [] and constraint.num_allowed([5]) == 0


def test_clones_go_their_own_ways(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(GrammarSpec(choice=("concert", "concord")))
    take(constraint, tokenizer, "conc")
    other = constraint.clone()
    assert take(constraint, tokenizer, "ert") == "ert"
    assert take(other, tokenizer, "ord") == "ord"
    assert constraint.is_stopped and other.is_stopped and constraint.clone().is_stopped


def test_the_next_mask_is_computed_in_the_background(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """Without anybody asking: the matcher is called by another thread, and the mask is then there."""
    constraint = compiler.compile(GrammarSpec(json_object=True))
    assert constraint.is_ready
    matcher = constraint._matcher
    called: list[str] = []
    may_go_on = threading.Event()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            if name == "unsafe_compute_mask_ptr":
                called.append(threading.current_thread().name)
                assert may_go_on.wait(60)
            return getattr(matcher, name)

    constraint._matcher = Watched()
    brace = next(token for token in allowed(constraint) if tokenizer.token_bytes(token).startswith(b"{"))
    constraint.advance(brace)
    assert not constraint.is_ready
    may_go_on.set()
    wait_until(lambda: constraint.is_ready, "the mask")
    assert [name.startswith("grammar-mask") for name in called] == [True]
    assert len(allowed(constraint)) > 0


def test_a_matcher_that_fails_ends_its_own_request_alone(tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """The repetition is more than the matcher agrees to unroll, which only shows once the text gets there."""
    constraint = compiler.compile(GrammarSpec(regex="x?(a{300}){330}"))
    other = compiler.compile(GrammarSpec(choice=("xylophone",)))
    constraint.advance(next(token for token in allowed(constraint) if tokenizer.token_bytes(token) == b"x"))
    with pytest.raises(InvalidRequestError, match=r"too complex to follow to the end .*: lexer error: too many"):
        for _ in range(5):
            constraint.advance(allowed(constraint)[0])
    for use in (constraint.mask, constraint.clone, lambda: constraint.advance(0)):
        with pytest.raises(InvalidRequestError, match=r"too complex to follow to the end .*: lexer error: too many"):
            use()
    assert take(other, tokenizer, "xylophone") == "xylophone"


@one_vocabulary
def test_threads(tokenizer: Tokenizer) -> None:
    """Many requests at once on a compiler that has not read its vocabulary yet."""
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)

    def answer(seed: int) -> tuple[int, str | None]:
        task = seed % len(TASKS)
        spec = GrammarSpec(json_schema=TASKS[task].schema)
        return task, random_answer(compiler.compile(spec), tokenizer, random.Random(seed), max_tokens=1000)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(answer, range(40)))
    for task, found_answer in found:
        assert found_answer is not None
        jsonschema.Draft202012Validator(TASKS[task].schema).validate(json.loads(found_answer))


def test_workers_end_with_their_compiler(tokenizer: Tokenizer) -> None:
    before = set(threading.enumerate())
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)
    constraint = compiler.compile(GrammarSpec(json_object=True))
    take(constraint, tokenizer, '{"a"')
    workers = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("grammar-mask")]
    assert workers
    del compiler
    assert take(constraint, tokenizer, ":1}") == ":1}"
    del constraint
    gc.collect()
    for thread in workers:
        thread.join(30)
        assert not thread.is_alive()


def test_a_process_ends_in_the_middle_of_a_mask() -> None:
    """The threads are waited for: tearing the interpreter down while one is inside the matcher can crash it."""
    code = """
import atexit
constraints = []
atexit.register(lambda: print("at the end", all(constraint.is_ready for constraint in constraints)))

from support.text.random_walk import allowed
from support.text.vocabularies import small_bpe
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_spec import GrammarSpec
tokenizer = tokenizer_from_gguf(small_bpe()[0])
compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)
constraints.extend(compiler.compile(GrammarSpec(json_schema={"const": "x" * 20_000})) for _ in range(8))
for constraint in constraints:
    constraint.advance(allowed(constraint)[0])
print("before", all(constraint.is_ready for constraint in constraints))
"""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "before False\nat the end True\n", "")


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of .*found none"),
        ({"regex": "a", "json_object": True}, "found json_object and regex"),
        ({"json_schema": '{"type": '}, "json_schema is not JSON: Expecting value"),
        ({"json_schema": '{"minimum": NaN}'}, "NaN is not a JSON number"),
        ({"json_schema": {"minimum": float("inf")}}, "cannot be written as JSON"),
        ({"json_schema": {"a": {1, 2}}}, "cannot be written as JSON"),
        ({"json_schema": "[]"}, "must be a JSON object, not list"),
        ({"json_schema": {"x-guidance": {"whitespace_pattern": " *"}}}, "'x-guidance', which a request cannot set"),
        ({"json_schema": {"enum": ["x" * 70_000]}}, "70,0.. bytes; at most 65,536"),
        ({"json_schema": '{"items":' * 100 + "{}" + "}" * 100}, "more than 64 levels deep"),
        ({"json_schema": '{"items":' * 7_000 + "true" + "}" * 200}, "not JSON|levels deep"),
        ({"json_schema": {"anyOf": [{}] * 3000}}, "3,001 objects inside it; at most 2,048"),
        ({"json_schema": {"multipleOf": 1_000_003}}, "multipleOf up to 1,000,003"),
        ({"regex": "a" * 10_000}, "regex has 10,000 bytes; at most 8,192"),
        ({"regex": "\ud800"}, "regex has a lone surrogate at character 0"),
        ({"regex": 3}, "regex is int, not a string"),
        ({"grammar": "a" * 20_000}, "grammar has 20,000 bytes; at most 16,384"),
        ({"choice": ()}, "non-empty tuple"),
        ({"choice": "yes"}, "non-empty tuple"),
        ({"choice": ("a", "")}, r"choice\[1\] is empty"),
        ({"choice": ("a", 3)}, r"choice\[1\] is int"),
        ({"choice": ("a",) * 5000}, "5,000 strings; at most 4,096"),
        ({"choice": ("a" * 40_000, "b" * 40_000)}, "80,000 bytes in all"),
    ],
)
def test_refused_on_creation(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        GrammarSpec(**arguments)


def test_circular_schema_object() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(InvalidRequestError, match="cannot be written as JSON"):
        GrammarSpec(json_schema=schema)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"json_schema": {"type": "integer", "minimum": 5, "maximum": 3}}, r"minimum \(5\) is greater than maximum"),
        ({"json_schema": {"type": "string", "pattern": "^a{9}$", "maxLength": 5}}, "Unsatisfiable schema"),
        ({"json_schema": {"enum": []}}, "Unsatisfiable schema"),
        ({"json_schema": {"$ref": "#"}}, "cannot be satisfied: no text matches it"),
        ({"json_schema": record(a=False)}, "required property 'a' is unsatisfiable"),
        ({"json_schema": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
        ({"json_schema": {"not": {"type": "string"}}}, r'Unimplemented keys: \["not"\]'),
        ({"json_schema": {"type": "strin"}}, "Invalid type: strin"),
        ({"json_schema": {"type": "string", "format": "colour"}}, "Unknown format: colour"),
        ({"json_schema": {"$ref": "#/$defs/missing"}}, "/missing' does not exist"),
        ({"json_schema": {"$ref": "other.json"}}, "retriev"),
        ({"json_schema": {"oneOf": [{"type": "string"}, {"minLength": 2}]}}, "use anyOf"),
        ({"json_schema": {"type": "string", "pattern": "(a"}}, "regex parse error: unclosed group"),
        ({"regex": "(a"}, "the regex is not usable: .*unclosed group"),
        ({"regex": "(?=a)b"}, "look-around"),
        ({"regex": r"(a)\1"}, "backreferences"),
        ({"regex": r"[^\x00-\U0010FFFF]"}, "cannot be satisfied"),
        ({"grammar": ""}, "Empty grammar"),
        ({"grammar": "start: other"}, 'the grammar is not usable: at 1.*unknown name: "other"'),
        ({"grammar": 'rule: "a"'}, "no start rule"),
        ({"grammar": "start: start"}, "cannot be satisfied"),
        ({"grammar": 'start: "a'}, "lexer error"),
        ({"grammar": '{"grammars": []}'}, "not usable"),
    ],
)
@one_vocabulary
def test_refused_by_the_compiler(arguments: dict[str, Any], message: str, compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        compiler.compile(GrammarSpec(**arguments))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_model_without_an_end(tokenizer: Tokenizer) -> None:
    with pytest.raises(UnsupportedError, match="no end token"):
        GrammarCompiler(tokenizer, frozenset(), tokenizer.vocab_size).compile(GrammarSpec(json_object=True))


def chain(count: int, link: Callable[[str, str], str], last: str, prefix: str) -> str:
    """Rules that each lead to the next; `prefix` says whether they are rules or tokens of the grammar."""
    links = "".join(link(f"{prefix}{number}", f"{prefix}{number + 1}") for number in range(count))
    return f"start: {prefix}0\n{links}{prefix}{count}: {last}"


def references(count: int, link: Callable[[dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    names = {f"{number:x}": link({"$ref": f"#/d/{number + 1:x}"}) for number in range(count)}
    return {"$ref": "#/d/0", "d": {**names, f"{count:x}": {"type": "null"}}}


HOSTILE: dict[str, dict[str, Any]] = {
    "rules": {"grammar": chain(1400, lambda a, b: f"{a}:{b}\n", '"a"', "r")},
    "tokens": {"grammar": chain(1000, lambda a, b: f'{a}:("b"{b})?\n', '"a"', "T")},
    "token repetitions": {"grammar": chain(500, lambda a, b: f'{a}:({b}"b")*\n', '"a"', "T")},
    "token doubling": {"grammar": chain(1200, lambda a, b: f"{a}:{b} {b}\n", '"a"', "T")},
    "rule doubling": {"grammar": chain(1100, lambda a, b: f"{a}:{b} {b}\n", '"a"', "r")},
    "parentheses": {"grammar": "start: " + "(" * 8000 + '"a"' + ")" * 8000},
    "ambiguous": {"grammar": 'start: s\ns: s s s | s s | "a" | "aa" | /a+/ |'},
    "references": {"json_schema": references(2000, lambda rest: rest)},
    "references in arrays": {"json_schema": references(1000, lambda rest: {"items": rest})},
    "references in objects": {
        "json_schema": references(600, lambda rest: {"type": "object", "properties": {"": rest}, "required": [""]})
    },
    "references in choices": {"json_schema": references(650, lambda rest: {"anyOf": [rest, {"type": "string"}]})},
    "many properties": {"json_schema": record(**{f"{n:x}": {} for n in range(900)}) | {"required": []}},
    "products": {
        "json_schema": {
            "allOf": [{"anyOf": [{"properties": {f"{m}{n}": {"const": n}}} for n in range(5)]} for m in range(12)]
        }
    },
    "long constant": {"json_schema": {"const": "x" * 65_000}},
    "long string": {"json_schema": {"type": "string", "minLength": 10**9, "maxLength": 10**9}},
    "long array": {"json_schema": {"type": "array", "items": {"type": "null"}, "minItems": 10**9}},
    "deep array": {"json_schema": '{"items":' * 63 + "{}" + "}" * 63},
    "nested repetition": {"regex": "(((a|b){1,1000}c){1,1000}d){1,1000}"},
    "catastrophic": {"regex": "(a+)+(a|aa)*(.*a){30}b"},
    "deep regex": {"regex": "(" * 4000 + "a" + ")" * 4000},
    "unicode": {"regex": r"(\w\s?\W?)" * 700},
}  # fmt: skip


@one_vocabulary
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars(name: str, tokenizer: Tokenizer, compiler: GrammarCompiler) -> None:
    """Within the limits or not: an error or a constraint, in a process that lives on. Without limits, after hours."""
    try:
        constraint = compiler.compile(GrammarSpec(**HOSTILE[name]))
        source = random.Random(0)
        for _ in range(10):
            constraint.advance(source.choice(allowed(constraint)))
    except (InvalidRequestError, EngineError) as error:
        assert len(str(error)) < 500


def test_compilation_has_a_time_limit(compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.text.grammar.COMPILE_SECONDS", 0.05)
    told = threading.Event()
    monkeypatch.setattr(GrammarCompiler, "build", lambda self, spec: told.wait(60))
    with pytest.raises(InvalidRequestError, match="the regex took more than 0 s to compile"):
        compiler.compile(GrammarSpec(regex="a"))
    told.set()


def test_a_panic_of_the_library_is_an_error_of_the_request(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        pass

    def panic(self: GrammarCompiler, spec: GrammarSpec) -> GrammarConstraint:
        raise Panic("index out of range")

    with monkeypatch.context() as patch:
        patch.setattr(GrammarCompiler, "build", panic)
        with pytest.raises(InvalidRequestError, match="could not be compiled: Panic: index out of range"):
            compiler.compile(GrammarSpec(regex="a"))
    assert compiler.compile(GrammarSpec(regex="a")).is_ready
