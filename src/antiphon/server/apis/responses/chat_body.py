"""Conversion of a request for a response into the body of a chat."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.server.apis.responses.items import messages
from antiphon.server.apis.responses.request_schemas import ChosenTool, ChosenTools, Item, ResponseBody, SchemaFormat
from antiphon.server.apis.responses.tools import joined_name, response_tools
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import (
    AllowedTools,
    AllowedToolsChoice,
    FunctionReference,
    NamedCustomTool,
    NamedTool,
    ToolChoice,
)
from antiphon.server.generation.parameters.request_schemas import (
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
    SamplingBody,
    TextFormat,
)


def chat_body(body: ResponseBody, items: Sequence[Item]) -> ChatBody:
    shared = {name: getattr(body, name) for name in SamplingBody.model_fields}
    wants_logprobs = body.top_logprobs is not None or "message.output_text.logprobs" in (body.include or ())
    tools = response_tools(body, items).chat
    return ChatBody(
        **shared,
        messages=messages(body.instructions, items),
        max_completion_tokens=body.max_output_tokens,
        tools=tools or None,
        tool_choice=_choice(body),
        parallel_tool_calls=False if body.max_tool_calls == 1 else body.parallel_tool_calls,
        response_format=_form(body),
        logprobs=wants_logprobs,
        top_logprobs=body.top_logprobs,
        chat_template_kwargs=body.chat_template_kwargs,
        reasoning_effort=body.reasoning.effort if body.reasoning is not None else None,
    )


def _choice(body: ResponseBody) -> ToolChoice | None:
    choice = body.tool_choice
    if isinstance(choice, ChosenTool):
        return _named(choice)
    if isinstance(choice, ChosenTools):
        allowed = AllowedTools(mode=choice.mode, tools=[_named(tool) for tool in choice.tools])
        return AllowedToolsChoice(type="allowed_tools", allowed_tools=allowed)
    return choice


def _named(tool: ChosenTool) -> NamedTool | NamedCustomTool:
    reference = FunctionReference(name=joined_name(tool.namespace, tool.name))
    if tool.type == "custom":
        return NamedCustomTool(type="custom", custom=reference)
    return NamedTool(type="function", function=reference)


def _form(body: ResponseBody) -> TextFormat | JsonObjectFormat | JsonSchemaFormat | None:
    form = body.text.format if body.text is not None else None
    if not isinstance(form, SchemaFormat):
        return form
    schema = NamedSchema(name=form.name, description=form.description, schema=form.schema_, strict=form.strict)
    return JsonSchemaFormat(type="json_schema", json_schema=schema)
