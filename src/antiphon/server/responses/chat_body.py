"""A request for a response as the body of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from antiphon.server.chat.request_schemas import ChatBody
from antiphon.server.parameters.messages import Function, FunctionReference, NamedTool, Tool
from antiphon.server.parameters.request_schemas import (
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
    SamplingBody,
    TextFormat,
)
from antiphon.server.responses.items import messages
from antiphon.server.responses.request_schemas import ChosenTool, Item, ResponseBody, ResponseTool, SchemaFormat


def chat_body(body: ResponseBody, items: Sequence[Item]) -> ChatBody:
    """The same request as a chat."""
    shared = {name: getattr(body, name) for name in SamplingBody.model_fields}
    wants_logprobs = body.top_logprobs is not None or "message.output_text.logprobs" in (body.include or ())
    return ChatBody(
        **shared,
        messages=messages(body.instructions, items),
        max_completion_tokens=body.max_output_tokens,
        tools=None if body.tools is None else [_tool(tool) for tool in body.tools],
        tool_choice=_choice(body),
        parallel_tool_calls=False if body.max_tool_calls == 1 else body.parallel_tool_calls,
        response_format=_form(body),
        logprobs=wants_logprobs,
        top_logprobs=body.top_logprobs,
        chat_template_kwargs=body.chat_template_kwargs,
        reasoning_effort=body.reasoning.effort if body.reasoning is not None else None,
    )


def _choice(body: ResponseBody) -> Literal["none", "auto", "required"] | NamedTool | None:
    choice = body.tool_choice
    if isinstance(choice, ChosenTool):
        return NamedTool(type="function", function=FunctionReference(name=choice.name))
    return choice


def _form(body: ResponseBody) -> TextFormat | JsonObjectFormat | JsonSchemaFormat | None:
    form = body.text.format if body.text is not None else None
    if not isinstance(form, SchemaFormat):
        return form
    schema = NamedSchema(name=form.name, description=form.description, schema=form.schema_, strict=form.strict)
    return JsonSchemaFormat(type="json_schema", json_schema=schema)


def _tool(tool: ResponseTool) -> Tool:
    function = Function(name=tool.name, description=tool.description, parameters=tool.parameters, strict=tool.strict)
    return Tool(type="function", function=function)
