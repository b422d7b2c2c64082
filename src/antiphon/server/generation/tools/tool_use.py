"""`ToolUse`: the tools that a chat may call, and the grammar that enforces the form of the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.grammar import grammar_of
from antiphon.server.generation.parameters.messages import (
    AllowedToolsChoice,
    CustomTool,
    NamedCustomTool,
    NamedTool,
    Tool,
)
from antiphon.server.generation.parameters.tools import check_tools, input_grammar, tool_name
from antiphon.server.generation.tools.call_forms_grammar import calls_or_answer
from antiphon.server.generation.tools.tool_grammar import ToolGrammar
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.setup.config import Limits
from antiphon.server.web.http.errors import invalid
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.tokenization.tokenizer import Tokenizer
from antiphon.text.tool_calls.forms import HERMES, ToolForm, takes_one_call, tool_form

#: Fields that cannot be combined with a grammar.
UNCONSTRAINED = ("allowed_token_ids", "banned_token_ids", "min_tokens")


@dataclass(frozen=True)
class ToolUse:
    """Tools of one chat. `grammar` constrains the answer, including a response format.

    Reasoning is possible if text `is_free`. With `is_single` the answer ends after its first call.
    """

    tools: tuple[Tool | CustomTool, ...] = ()
    grammar: GrammarSpec | None = None
    is_single: bool = False
    form: ToolForm = HERMES
    is_free: bool = True
    is_required: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool_name(tool) for tool in self.tools)

    @property
    def custom(self) -> frozenset[str]:
        return frozenset(tool_name(tool) for tool in self.tools if isinstance(tool, CustomTool))


def tool_use(body: ChatBody, model: ReadyModel, limits: Limits) -> ToolUse:
    """Check the tools against the model and the limits. With `tool_choice: none` the prompt has no tools."""
    tools, choice = body.tools or [], body.tool_choice
    answer = grammar_of(body)
    if not tools:
        if choice is not None and choice not in ("none", "auto"):
            raise invalid("tool_choice asks for a call, and there are no tools", "tool_choice")
        return ToolUse(grammar=answer, is_free=answer is None)
    check_tools(tools, limits)
    if choice == "none":
        return ToolUse(grammar=answer, is_free=answer is None)
    template = model.text.chat_template
    form = tool_form(template)
    shown, called, is_required = _choice(body, tools)
    is_named = isinstance(choice, NamedTool | NamedCustomTool)
    is_single = body.parallel_tool_calls is False or is_named
    # A small model whose tools are described in the prompt tends to repeat its call.
    is_usually_one = form.is_generic and body.parallel_tool_calls is None
    ends_after_one = is_single or is_usually_one or takes_one_call(template)
    grammar, is_free = None, False
    if is_required:
        grammar = ToolGrammar(form, called).required(ends_after_one)
    elif answer is not None:
        form = (
            replace(form, text_key="") if form.text_key else form
        )  # the response format applies to the answer, not to its text
        grammar = calls_or_answer(form, called, answer, ends_after_one, has_control_tag(form, model.text.tokenizer))
    elif form.text_key and not any(getattr(body, name) for name in UNCONSTRAINED):
        grammar = ToolGrammar(form, called).or_wrapped_text(ends_after_one)
    else:
        is_free = True
        if any(_is_strict(tool) for tool in called):
            grammar = ToolGrammar(form, called, all_strict=False).or_text(ends_after_one)
    return ToolUse(tuple(shown), grammar, is_single, form, is_free, is_required)


AnyTools = Sequence[Tool | CustomTool]


def _choice(body: ChatBody, tools: AnyTools) -> tuple[AnyTools, AnyTools, bool]:
    """Return the tools of the prompt, those that may be called, and whether one must be called."""
    choice = body.tool_choice
    if isinstance(choice, NamedTool | NamedCustomTool):
        return tools, _named([choice], tools), True
    if isinstance(choice, AllowedToolsChoice):
        allowed = _named(choice.allowed_tools.tools, tools)
        return allowed, allowed, choice.allowed_tools.mode == "required"
    return tools, tools, choice == "required"


def _named(references: Sequence[NamedTool | NamedCustomTool], tools: AnyTools) -> AnyTools:
    wanted = {
        (reference.type, reference.custom.name if isinstance(reference, NamedCustomTool) else reference.function.name)
        for reference in references
    }
    found = [tool for tool in tools if (tool.type, tool_name(tool)) in wanted]
    missing = sorted(wanted - {(tool.type, tool_name(tool)) for tool in found})
    if missing:
        raise invalid(f"tool_choice names {missing[0][1]!r}, which is no {missing[0][0]} tool here", "tool_choice")
    return found


def has_control_tag(form: ToolForm, tokenizer: Tokenizer) -> bool:
    """Return whether the form's tag is a control token, which text omits."""
    return bool(form.tag) and tokenizer.id_of(form.tag) in tokenizer.special_ids


def _is_strict(tool: Tool | CustomTool) -> bool:
    return input_grammar(tool) is not None if isinstance(tool, CustomTool) else bool(tool.function.strict)
