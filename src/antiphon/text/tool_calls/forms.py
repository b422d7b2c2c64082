"""The formats in which models write tool calls, detected from their chat templates."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.text.chat_template import ChatTemplate
from antiphon.text.reasoning import THINK

#: Part of the error message of templates that allow only one call per message.
SINGLE_CALL = "single tool-call"


@dataclass(frozen=True)
class ToolForm:
    """A format of calls: `tag`, an object of the tool's name and, under `arguments_key`, its arguments, then `end`.

    `separator` stands between two calls. In every form, models also write the object alone; where that is usual, the
    form `is_bare`.
    """

    name: str
    tag: str
    end: str
    arguments_key: str
    separator: str
    #: Text that a grammar puts before and after the object.
    before: str
    after: str
    is_bare: bool = False
    #: Whether the prompt explains the form instead of the template.
    is_generic: bool = False
    #: Key of the object that wraps an answer in text, or "" if text is not wrapped.
    text_key: str = ""

    @property
    def text_opener(self) -> str:
        """Text before a wrapped answer, up to its opening quote: `{"response": "`; "" if answers are not wrapped."""
        return f'{{"{self.text_key}": "' if self.text_key else ""


#: Qwen, Hermes: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
HERMES = ToolForm("hermes", "<tool_call>", "</tool_call>", "arguments", "\n", "<tool_call>\n", "\n</tool_call>")

#: Llama 3: `{"name": ..., "parameters": {...}}`, often after a control token; semicolons separate several calls.
LLAMA = ToolForm("llama", "<|python_tag|>", "", "parameters", "; ", "", "", True)

#: For templates without tools: `{"name": ..., "arguments": {...}}`, as the system message says, and answers in text as
#: `{"response": ...}`: a small model calls tools more often if it writes JSON in any case.
GENERIC = ToolForm("generic", "", "", "arguments", "\n", "", "", True, True, "response")

#: `GENERIC` without wrapped text, for models that reason before they answer.
GENERIC_REASONING = ToolForm("generic", "", "", "arguments", "\n", "", "", True, True)


def tool_form(template: ChatTemplate | None) -> ToolForm:
    """Return the form that the template uses, or a generic one if it has no tools or an unknown form."""
    source = "" if template is None else template.source
    if "tools" in source and HERMES.tag in source:
        return HERMES
    writes_parameters = "tools" in source and f'"{LLAMA.arguments_key}": ' in source
    if writes_parameters and ("ipython" in source or LLAMA.tag in source):
        return LLAMA
    return GENERIC_REASONING if THINK in source else GENERIC


def takes_one_call(template: ChatTemplate | None) -> bool:
    """Return whether the template rejects a message with several calls."""
    return template is not None and SINGLE_CALL in template.source
