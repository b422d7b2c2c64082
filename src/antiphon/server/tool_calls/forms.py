"""The formats in which models write tool calls, detected from their chat templates."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.text.chat_template import ChatTemplate

#: In the error message of templates that allow only one call per message.
SINGLE_CALL = "single tool-call"


@dataclass(frozen=True)
class ToolForm:
    """A call is `tag`, an object of the tool's name and, under `arguments_key`, its arguments, and `end`.

    Where a tag is optional, the object alone is a call as well. `separator` stands between two calls.
    """

    name: str
    tag: str
    end: str
    arguments_key: str
    separator: str
    #: What a grammar writes before and after the object.
    before: str
    after: str
    #: The keys with which an object without a tag may begin.
    first_keys: tuple[str, ...] = ("name",)


#: Qwen, Hermes: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
HERMES = ToolForm("hermes", "<tool_call>", "</tool_call>", "arguments", "\n", "<tool_call>\n", "\n</tool_call>")

#: Llama 3: `{"name": ..., "parameters": {...}}`, often after a control token; several are separated by semicolons.
LLAMA = ToolForm("llama", "<|python_tag|>", "", "parameters", "; ", "", "", ("name", "type"))


def tool_form(template: ChatTemplate | None) -> ToolForm | None:
    """The form that a template uses; None if it does not support tools, or in another form."""
    source = "" if template is None else template.source
    if "tools" not in source:
        return None
    if HERMES.tag in source:
        return HERMES
    writes_parameters = f'"{LLAMA.arguments_key}": ' in source
    return LLAMA if writes_parameters and ("ipython" in source or LLAMA.tag in source) else None


def takes_one_call(template: ChatTemplate | None) -> bool:
    """Whether the template rejects a message with several calls."""
    return template is not None and SINGLE_CALL in template.source
