"""Conversion of a request for a message into the body of a chat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from antiphon.server.apis.anthropic.request_schemas import (
    AssistantTurn,
    CountTokensBody,
    DocumentBlock,
    MessagesBody,
    NamedToolChoice,
    SystemTurn,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    UserTurn,
)
from antiphon.server.apis.anthropic.tool_schemas import ClientTool
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import (
    AssistantMessage,
    CalledFunction,
    CustomToolCall,
    Function,
    FunctionReference,
    Message,
    NamedTool,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from antiphon.server.generation.parameters.request_schemas import JsonSchemaFormat, NamedSchema
from antiphon.server.serving.models import ReadyModel
from antiphon.server.web.http.errors import invalid
from antiphon.text.reasoning import reasoning_options

CHOICES: dict[str, Literal["auto", "required", "none"]] = {"auto": "auto", "any": "required", "none": "none"}


def chat_body(body: CountTokensBody, model: ReadyModel) -> ChatBody:
    choice = body.tool_choice
    only_one = choice is not None and bool(choice.disable_parallel_tool_use)
    shared: dict[str, Any] = {}
    if isinstance(body, MessagesBody):
        names = ("max_tokens", "stream", "temperature", "top_p", "top_k", "priority")
        shared = {name: getattr(body, name) for name in names} | {"stop": body.stop_sequences}
    _check_results(body.messages)
    messages = list(_messages(body))
    last = messages[-1]
    return ChatBody(
        model=model.name,
        keep_alive=body.keep_alive,
        messages=messages,
        # An assistant's turn at the end is the beginning of the answer.
        continue_final_message=isinstance(last, AssistantMessage) and bool(last.content) and not last.tool_calls,
        tools=None if body.tools is None else [_tool(tool) for tool in body.tools],
        tool_choice=_choice(body),
        parallel_tool_calls=False if only_one else None,
        response_format=_form(body),
        chat_template_kwargs=_template_options(body, model),
        **shared,
    )


def _check_results(turns: Sequence[Turn]) -> None:
    """Reject a tool result whose call is not in the assistant's turn before it."""
    calls: set[str] = set()
    is_assistants = False
    for index, turn in enumerate(turns):
        if isinstance(turn, AssistantTurn):
            calls = calls if is_assistants else set()
            is_assistants = True
            if isinstance(turn.content, list):
                calls |= {block.id for block in turn.content if isinstance(block, ToolUseBlock)}
        elif isinstance(turn, UserTurn):
            is_assistants = False
            for number, block in enumerate(turn.content if isinstance(turn.content, list) else ()):
                if isinstance(block, ToolResultBlock) and block.tool_use_id not in calls:
                    param = f"messages[{index}].content[{number}].tool_use_id"
                    raise invalid(
                        f"{param}: the assistant's turn before this tool_result has no tool_use with the id "
                        f"{block.tool_use_id[:100]!r}",
                        param,
                    )


def _messages(body: CountTokensBody) -> Iterator[Message]:
    if body.system is not None:
        yield SystemMessage(role="system", content=_text(body.system))
    for turn in body.messages:
        if isinstance(turn, SystemTurn):
            yield SystemMessage(role="system", content=_text(turn.content))
        elif isinstance(turn, AssistantTurn):
            yield _assistant_message(turn)
        else:
            yield from _user_messages(turn)


def _user_messages(turn: UserTurn) -> Iterator[Message]:
    """Yield a tool message for each tool result, and user messages for the text between them."""
    if isinstance(turn.content, str):
        yield UserMessage(role="user", content=turn.content)
        return
    texts: list[str] = []
    for block in turn.content:
        if isinstance(block, TextBlock | DocumentBlock):
            texts.append(block.text)
            continue
        if texts:
            yield UserMessage(role="user", content="".join(texts))
            texts = []
        yield ToolMessage(role="tool", content=_result(block), tool_call_id=block.tool_use_id)
    if texts or not turn.content:
        yield UserMessage(role="user", content="".join(texts))


def _result(block: ToolResultBlock) -> str:
    """Return the result's text, marked if the call failed: chat templates have no field for failed calls."""
    text = _text(block.content or "")
    return f"Error: {text}" if block.is_error else text


def _assistant_message(turn: AssistantTurn) -> AssistantMessage:
    if isinstance(turn.content, str):
        return AssistantMessage(role="assistant", content=turn.content)
    thoughts = [block.thinking for block in turn.content if isinstance(block, ThinkingBlock)]
    calls: list[ToolCall | CustomToolCall] = [
        ToolCall(id=block.id, function=CalledFunction(name=block.name, arguments=json.dumps(block.input)))
        for block in turn.content
        if isinstance(block, ToolUseBlock)
    ]
    return AssistantMessage(
        role="assistant",
        content="".join(block.text for block in turn.content if isinstance(block, TextBlock)),
        reasoning_content="".join(thoughts) or None,
        tool_calls=calls or None,
    )


def _text(content: str | Sequence[TextBlock | DocumentBlock | ToolReferenceBlock]) -> str:
    return content if isinstance(content, str) else "".join(block.text for block in content)


def _tool(tool: ClientTool) -> Tool:
    function = Function(name=tool.name, description=tool.description, parameters=tool.input_schema, strict=tool.strict)
    return Tool(type="function", function=function)


def _choice(body: CountTokensBody) -> Literal["none", "auto", "required"] | NamedTool | None:
    choice = body.tool_choice
    if isinstance(choice, NamedToolChoice):
        return NamedTool(type="function", function=FunctionReference(name=choice.name))
    return None if choice is None else CHOICES[choice.type]


def _form(body: CountTokensBody) -> JsonSchemaFormat | None:
    form = body.output_config.format if body.output_config is not None else None
    form = form or body.output_format
    if form is None:
        return None
    return JsonSchemaFormat(type="json_schema", json_schema=NamedSchema(name="output", schema=form.schema_))


def _template_options(body: CountTokensBody, model: ReadyModel) -> dict[str, Any] | None:
    """Return the template's reasoning options; without `thinking`, reasoning is off if the template allows that."""
    effort = body.output_config.effort if body.output_config is not None else None
    if effort not in (None, "low", "medium", "high"):
        effort = "high"
    is_on = body.thinking is not None and body.thinking.type != "disabled"
    return reasoning_options(model.text.chat_template, is_on, effort) or None
