"""Tools for chat templates without tools: a system message explains them, and their results are user messages."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from antiphon.errors import TemplateError
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.tool_calls.forms import ToolForm

Plain = dict[str, Any]

PROBE = "antiphon-probe"


def generic_messages(messages: list[Plain], tools: list[Plain], template: ChatTemplate, form: ToolForm) -> list[Plain]:
    """Return the chat without roles and fields unknown to the template, with the tools in its first message."""
    made = _plain_history(messages, form if tools else None)
    if not tools:
        return made
    text = instructions(tools, form)
    first = made[0] if made else None
    if first is not None and first["role"] == "system":
        return [{**first, "content": f"{first['content']}\n\n{text}"}, *made[1:]]
    if first is None or first["role"] != "user" or has_system_role(template):
        return [{"role": "system", "content": text}, *made]
    return [{**first, "content": f"{text}\n\n{first['content']}"}, *made[1:]]


def instructions(tools: list[Plain], form: ToolForm) -> str:
    """Describe the tools and how to call them, with an example of each kind of answer."""
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    call = f'{{"name": function, "{form.arguments_key}": {{...}}}}'
    if not form.text_key:
        how = f"If a function fits the request, answer only with {call}. Otherwise answer the user directly."
        return f"Functions:\n{listed}\n\n{how}"
    text = f'{{"{form.text_key}": text}}'
    example = f'Hello! -> {{"{form.text_key}": "Hello!"}}'
    how = f"If a function fits the request: {call}. Otherwise, to chat or to write a text: {text}."
    return f"Functions:\n{listed}\n\nAnswer with JSON only. {how}\n{example}"


def written_call(call: Plain, form: ToolForm | None) -> str:
    """Write a call in the history in the form that the model should use."""
    function = call["function"]
    key = "arguments" if form is None else form.arguments_key
    return json.dumps({"name": function["name"], key: function["arguments"]}, ensure_ascii=False)


def _plain_history(messages: list[Plain], form: ToolForm | None) -> list[Plain]:
    names: dict[str, str] = {}
    made: list[Plain] = []
    for message in messages:
        if message["role"] == "tool":
            name = names.get(message.get("tool_call_id", ""), "the function")
            made.append({"role": "user", "content": f"Result of {name}: {message['content']}", "is_result": True})
            continue
        calls = message.get("tool_calls", ())
        names |= {call["id"]: call["function"]["name"] for call in calls}
        kept = {key: value for key, value in message.items() if key != "tool_calls"}
        if message["role"] == "assistant":
            kept["content"] = _assistant_text(message["content"], [written_call(call, form) for call in calls], form)
        made.append(kept)
    return _merged(made)


def _assistant_text(content: str, calls: list[str], form: ToolForm | None) -> str:
    if not calls and form is not None and form.text_key:
        return json.dumps({form.text_key: content}, ensure_ascii=False)
    return "\n".join([*([content] if content else []), *calls])


def _merged(messages: list[Plain]) -> list[Plain]:
    """Merge results with the user's next message, since many templates require roles to alternate."""
    made: list[Plain] = []
    for message in messages:
        was_result = bool(made) and made[-1].get("is_result", False)
        if was_result and message["role"] == "user":
            is_result = message.get("is_result", False)
            made[-1] = {**made[-1], "content": f"{made[-1]['content']}\n{message['content']}", "is_result": is_result}
        else:
            made.append(message)
    return [{key: value for key, value in message.items() if key != "is_result"} for message in made]


@lru_cache(maxsize=64)
def has_system_role(template: ChatTemplate) -> bool:
    """Return whether the template writes a system message that comes first."""
    try:
        text = template.render([{"role": "system", "content": PROBE}, {"role": "user", "content": "Hello"}])
    except TemplateError:
        return False
    return PROBE in text
