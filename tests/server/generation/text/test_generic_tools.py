"""Tools for templates that know none: placed where the template shows them, with roles that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.server.generation.tools.generic_tools import generic_messages, has_system_role
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.tool_calls.forms import GENERIC, GENERIC_REASONING

TEMPLATES = Path(__file__).parents[3] / "text" / "templates"
#: The roles must alternate, beginning with the user.
NO_SYSTEM = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)
#: Writes the roles that it knows, and leaves the others out.
SILENT = (
    "{% for m in messages %}{% if m.role in ('user', 'assistant') %}"
    "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
)
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "add", "description": "Adds."}}]


def call(identifier: str) -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}


CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "", "tool_calls": [call("c1"), call("c2")]},
    {"role": "tool", "tool_call_id": "c1", "content": "first"},
    {"role": "tool", "tool_call_id": "c2", "content": "second"},
    {"role": "user", "content": "two"},
    {"role": "assistant", "content": 'so "three"'},
    {"role": "user", "content": "four"},
]


@pytest.mark.parametrize("source", [NO_SYSTEM, SILENT, "gemma", "chatml"])
def test_every_template_shows_tools_calls_and_results(source: str) -> None:
    if "{" not in source:
        source = (TEMPLATES / f"{source}.jinja").read_text(encoding="utf-8")
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    text = template.render(generic_messages(CHAT, TOOLS, template, GENERIC))
    expected = [
        '{"name": "add", "description": "Adds."}',
        "one",
        '{"name": "add", "arguments": {"a": 1}}\n{"name"',
        "Result of add: first\nResult of add: second\ntwo",
        '{"response": "so \\"three\\""}',
        "four",
    ]
    positions = [text.index(part) for part in expected]
    assert positions == sorted(positions)


def test_instructions_join_a_system_message() -> None:
    template = ChatTemplate(NO_SYSTEM)
    system = {"role": "system", "content": "Be kind."}
    made = generic_messages([system, *CHAT], TOOLS, template, GENERIC)
    assert made[0]["role"] == "system" and made[0]["content"].startswith("Be kind.\n\nFunctions:")
    assert [message["role"] for message in made] == ["system", "user", "assistant", "user", "assistant", "user"]


def test_a_model_that_reasons_answers_without_json() -> None:
    template = ChatTemplate(SILENT)
    made = generic_messages(CHAT, TOOLS, template, GENERIC_REASONING)
    assert "answer the user directly" in made[0]["content"] and made[3]["content"] == 'so "three"'


def test_without_tools_only_the_roles_change() -> None:
    made = generic_messages(CHAT, [], ChatTemplate(SILENT), GENERIC)
    assert made[0] == CHAT[0] and made[3:] == CHAT[5:]
    assert {key for message in made for key in message} == {"role", "content"}


def test_a_system_role_is_found_by_rendering() -> None:
    assert not has_system_role(ChatTemplate(NO_SYSTEM)) and not has_system_role(ChatTemplate(SILENT))
    assert has_system_role(ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}"))
