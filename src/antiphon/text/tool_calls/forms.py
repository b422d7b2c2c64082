"""The formats in which models write tool calls, detected from their chat templates."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.text.chat_template import ChatTemplate
from antiphon.text.reasoning import THINK

#: In the error message of templates that allow only one call per message.
SINGLE_CALL = "single tool-call"


@dataclass(frozen=True)
class ToolForm:
    """A call is `tag`, an object of the tool's name and, under `arguments_key`, its arguments, and `end`.

    `separator` stands between two calls. Models write the object alone as well, in any form; where that is usual, the
    form `is_bare`.
    """

    name: str
    tag: str
    end: str
    arguments_key: str
    separator: str
    #: What a grammar writes before and after the object.
    before: str
    after: str
    is_bare: bool = False
    #: The prompt explains the form, not the template.
    is_generic: bool = False
    #: The key of an object whose value is an answer in text, if text is wrapped so.
    text_key: str = ""

    @property
    def text_opener(self) -> str:
        """What stands before an answer in text; a quote and a brace follow it."""
        return f'{{"{self.text_key}": "' if self.text_key else ""


#: Qwen, Hermes: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
HERMES = ToolForm("hermes", "<tool_call>", "</tool_call>", "arguments", "\n", "<tool_call>\n", "\n</tool_call>")

#: Llama 3: `{"name": ..., "parameters": {...}}`, often after a control token; several are separated by semicolons.
LLAMA = ToolForm("llama", "<|python_tag|>", "", "parameters", "; ", "", "", True)

#: For templates that know no tools: `{"name": ..., "arguments": {...}}`, as the system message says, and an answer in
#: text as `{"response": ...}`: a small model calls tools more often if it writes JSON in any case.
GENERIC = ToolForm("generic", "", "", "arguments", "\n", "", "", True, True, "response")

#: The same for models that reason before they answer: their text is not wrapped.
GENERIC_REASONING = ToolForm("generic", "", "", "arguments", "\n", "", "", True, True)


def tool_form(template: ChatTemplate | None) -> ToolForm:
    """The form that a template uses; a generic one if it does not support tools, or in a form not known here."""
    source = "" if template is None else template.source
    if "tools" in source and HERMES.tag in source:
        return HERMES
    writes_parameters = "tools" in source and f'"{LLAMA.arguments_key}": ' in source
    if writes_parameters and ("ipython" in source or LLAMA.tag in source):
        return LLAMA
    return GENERIC_REASONING if THINK in source else GENERIC


def takes_one_call(template: ChatTemplate | None) -> bool:
    """Whether the template rejects a message with several calls."""
    return template is not None and SINGLE_CALL in template.source
