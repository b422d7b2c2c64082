"""Damaged forms, templates and grammars of requests end in a result or in an error of ours."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi import Request

from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.server.generation.sound.request_schemas import TranscriptionForm
from antiphon.server.web.bodies.uploads import read_form
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from support.fuzzing import damaged, damaged_text, fuzz, seeds
from support.text.vocabularies import small_bpe

MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def texts(target: str) -> list[str]:
    return [content.decode() for content in seeds(target)]


def test_multipart(soak: bool) -> None:
    async def read(content: bytes) -> None:
        messages = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        headers = [(b"content-type", b"multipart/form-data; boundary=b")]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        scope["context"] = RequestContext("id", "POST", "/")
        try:
            form = await read_form(Request(scope, receive), TranscriptionForm, 1 << 20)
        except ApiError as error:
            assert 400 <= error.status < 500, error.message
        else:
            form.file.close()

    fuzz(lambda content: asyncio.run(read(content)), damaged(seeds("multipart")), soak)


TEMPLATE_WORDS = [
    "{{", "}}", "{%", "%}", "{#", "{% for x in range(999999) %}", "{% endfor %}", "{% set s = s ~ s %}", "{% if",
    "{% macro f() %}{{ f() }}{% endmacro %}", "{{ f() }}", "{{ messages.__class__ }}", " | tojson", " | join(',')",
    " * 1000000", "'%1000000000d' % 3", "{{ 'a' * 10 ** 9 }}", "{% call", "{% block x %}", "{% filter upper %}",
    "| map('upper') | list", "| batch(3)", "namespace(", "[::-1]", "range(10 ** 9)", "raise_exception('x')",
]  # fmt: skip


def test_templates(soak: bool) -> None:
    def render(source: str) -> None:
        ChatTemplate(source, bos_token="<s>").render(MESSAGES, TOOLS)

    fuzz(render, damaged_text(texts("template"), TEMPLATE_WORDS), soak)
    for source in texts("template"):
        assert ChatTemplate(source, bos_token="<s>").render(MESSAGES, TOOLS)


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokenizer = tokenizer_from_gguf(small_bpe()[0])
    return GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)


def schema_spec(text: str) -> GrammarSpec:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        schema = text
    if not isinstance(schema, dict | str):
        raise InvalidRequestError("a schema is an object")
    return GrammarSpec(json_schema=schema)


SPECS = {
    "json_schema": (
        schema_spec,
        ['{"$ref": "#"}', '"type":', '"anyOf": [', "[", "]", "{", "}", '"minItems": 1000000000,',
         '"pattern": "(a+)+$",', '"multipleOf": 0.0001,', '"oneOf": [{}, {}],', "1e400",
         '"allOf": [{"$ref": "#/$defs/n"}],'],
    ),
    "regex": (
        lambda text: GrammarSpec(regex=text),
        ["(", ")", "[", "]", "{1000}", "{1,1000000}", "(a|a)*", "(?=x)", "\\1", "\\p{L}", "*", "+", "|", ".", "(?i)"],
    ),
    "lark": (
        lambda text: GrammarSpec(grammar=text),
        ["start:", "start", "\n", "|", "(", ")", "*", "~1..1000000", "{1000}", "/", '"', "%json {}",
         "%import common.INT", "[lazy]", "x: x x", "%ignore /./", "/(a{1000}){1000}/"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", SPECS)
def test_grammars(target: str, compiler: GrammarCompiler, soak: bool) -> None:
    make, words = SPECS[target]
    fuzz(lambda text: compiler.compile(make(text)), damaged_text(texts(target), words), soak)
    for text in texts(target):
        try:
            compiler.compile(make(text))
        except AntiphonError as error:
            pytest.fail(f"the seed itself is rejected: {error}")
