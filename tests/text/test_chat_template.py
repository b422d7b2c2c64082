"""Chat templates against transformers' own renderer, and templates that mean harm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from antiphon.errors import AntiphonError, TemplateError
from antiphon.text.chat_template import ChatTemplate, find_chat_template
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.gguf import GGUFFile
from support.text.vocabularies import small_sentencepiece

TEMPLATES = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "templates").iterdir()}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'Tells the weather — <now> & "here"',
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "question": [{"role": "user", "content": "What is the capital of France?"}],
    "system": [
        {"role": "system", "content": "You answer in one word.\n"},
        {"role": "user", "content": "  Größe & <b>?  "},
        {"role": "assistant", "content": "Ja."},
        {"role": "user", "content": "Warum?"},
    ],
    "tool call": [
        {"role": "user", "content": "Weather in Oslo?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
        },
        {"role": "tool", "content": '{"degrees": -3}', "name": "weather"},
        {"role": "user", "content": "Thanks"},
    ],
}


def reference(
    source: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, prompt: bool
) -> str | None:
    """What transformers renders, or None where the template refuses."""
    try:
        rendered, _ = render_jinja_template(
            [messages], tools=tools, chat_template=source, add_generation_prompt=prompt, **TOKENS
        )
    except Exception:
        return None
    text: str = rendered[0]
    return text


def check_template(source: str) -> int:
    """Compare every conversation with and without tools; the number of prompts that were made."""
    template = ChatTemplate(source, **TOKENS)
    made = 0
    for messages in CONVERSATIONS.values():
        for tools in (None, TOOLS):
            for prompt in (True, False):
                expected = reference(source, messages, tools, prompt)
                if expected is None:
                    with pytest.raises(TemplateError):
                        template.render(messages, tools=tools, add_generation_prompt=prompt)
                else:
                    assert template.render(messages, tools=tools, add_generation_prompt=prompt) == expected
                    made += 1
    return made


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_templates_render_as_in_transformers(name: str) -> None:
    assert check_template(TEMPLATES[name]) >= 4


@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b", "smollm2-135m", "tinyllama-1.1b"])
def test_templates_in_models_render_as_in_transformers(model: str) -> None:
    try:
        path = resolve(model, offline=True).path
    except AntiphonError as error:
        pytest.skip(str(error))
    source = find_chat_template(GGUFFile(path).metadata)
    assert source is not None
    assert check_template(source) >= 4


def test_a_refusal_is_the_users_error_in_one_line() -> None:
    template = ChatTemplate("{{ raise_exception('Roles must\nalternate: ' + messages[0].role) }}")
    with pytest.raises(TemplateError) as caught:
        template.render([{"role": "tool", "content": "x"}])
    assert str(caught.value) == "the chat template refused the messages: Roles must alternate: tool"


@pytest.mark.parametrize("source", ["{% if %}", "{{ messages", "{% for x in y %}", "{{ x | nosuchfilter }}"])
def test_a_template_that_does_not_compile_is_an_error(source: str) -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        ChatTemplate(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ range(99999) | sum }}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% for i in [1] * 9 %}{% if n %}{{ f(n - 1) }}{% endif %}{% endfor %}{% endmacro %}{{ f(9) }}",
        "{{ 'x' * 10 ** 12 }}",
        "{{ [0] * 10 ** 12 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% set n = namespace(x='xx') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x='xx') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x=9) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{{ 'x'.ljust(10 ** 12) }}",
        "{{ 'x'.replace('', 'y' * 10 ** 7).replace('y', 'z' * 10 ** 7) }}",
        "{{ ('a' * 10 ** 6) | replace('a', 'b' * 10 ** 6) }}",
        "{{ 'x' | center(10 ** 12) }}",
        "{{ '%999999999999d' % 1 }}",
        "{{ '%999999999999d' | format(1) }}",
        "{{ '{:999999999999}'.format(1) }}",
        "{{ '{:99999999}'.format_map({'': 1}) }}",
        "{{ '{:{}}'.format(1, 99999999) }}",
        "{{ '{0:.{1}f}'.format(1.0, 99999999) }}",
        "{{ ('{:9999}' * 10 ** 5).format(*[1] * 10 ** 5) }}",
        "{{ ('%09999d' * 10 ** 5) % ((1,) * 10 ** 5) }}",
        "{{ ['{:99999999}'] | map('format', 1) | list }}{{ '{:99999999}'['format'](1) }}",
        "{{ messages | tojson(indent=10 ** 9) }}",
        "{% for a in range(99999) %}{{ 'x' * 10 ** 6 }}{% endfor %}",
        "{{ lipsum(n=10 ** 9) }}",
        "{{ ''.__class__.__mro__ }}{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__.json }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_hostile_templates_end_in_our_error(source: str) -> None:
    """Without limits they take hours, or all of the memory."""
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(source).render(CONVERSATIONS["question"])
    assert "\n" not in str(caught.value)


def test_ordinary_formats_are_allowed() -> None:
    source = (
        """{{ '{{"name": "{}", "at": {:>5}}}'.format('a', 3) }}{{ '%-6s|%5.2f 100%%' % ('b', 2) }}{{ '%s.*' % 1 }}"""
    )
    assert ChatTemplate(source).render([]) == '{"name": "a", "at":     3}b     | 2.00 100%1.*'


def test_large_templates_are_refused() -> None:
    with pytest.raises(TemplateError, match="200,001 characters; at most 200,000"):
        ChatTemplate("x" * 200_001)


def test_messages_hold_plain_data_only() -> None:
    with pytest.raises(TemplateError, match="Path"):
        ChatTemplate("{{ messages }}").render([{"role": "user", "content": Path()}])


def test_extra_variables_and_generation_tags() -> None:
    template = ChatTemplate(
        "{% generation %}{{ thinking }}{% endgeneration %}{{ bos_token }}", bos_token="<s>", eos_token=None
    )
    assert template.render([], thinking=True) == "True<s>"
    assert template.render([], bos_token="<other>") == "<other>"


def test_special_tokens_come_from_the_vocabulary() -> None:
    tokenizer = tokenizer_from_gguf(small_sentencepiece()[0])
    template = ChatTemplate.for_tokenizer("{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}", tokenizer)
    assert template.render([]) == "<s></s><unk>"


def test_the_current_date_is_at_hand() -> None:
    assert ChatTemplate("{{ strftime_now('%Y') }}").render([]) == time.strftime("%Y")


def test_templates_are_found_in_metadata_and_configurations() -> None:
    assert find_chat_template({}) is None
    assert find_chat_template({"tokenizer.chat_template": "a"}) == "a"
    gguf = {
        "tokenizer.chat_template": "a",
        "tokenizer.chat_template.tool_use": "b",
        "tokenizer.chat_templates": ["tool_use"],
    }
    assert (find_chat_template(gguf), find_chat_template(gguf, tools=True)) == ("a", "b")
    config = {"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}
    assert (find_chat_template(config), find_chat_template(config, tools=True)) == ("a", "b")
    assert find_chat_template({"chat_template": "a"}, tools=True) == "a"
    assert find_chat_template({"chat_template": None}) is None
