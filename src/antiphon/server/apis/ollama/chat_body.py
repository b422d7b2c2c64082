"""Conversion of Ollama requests into the body of a chat or of a completion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.server.apis.ollama.request_schemas import (
    OllamaChatBody,
    OllamaGenerateBody,
    OllamaMessage,
    OllamaOptions,
    OllamaTextBody,
    OllamaTool,
)
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import (
    AnyTool,
    AssistantMessage,
    CalledFunction,
    CustomToolCall,
    Function,
    Message,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from antiphon.server.generation.parameters.request_schemas import (
    CompletionBody,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
)
from antiphon.server.serving.models import ReadyModel
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.server.web.http.text_only import TEXT_ONLY
from antiphon.text.reasoning import can_reason, reasoning_options

#: Our parameter by Ollama option, for options whose values need no conversion.
SAME = {
    "temperature": "temperature",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "stop": "stop",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
#: Replaces a `top_p` of 0, which leaves only the likeliest token.
LEAST_TOP_P = 1e-6
#: `max_tokens` without a limit of the request's own: the context's and the server's limits apply.
UNLIMITED = -1


def chat_body(body: OllamaChatBody, model: ReadyModel) -> ChatBody:
    tools: list[AnyTool] | None = None if body.tools is None else [_tool(tool) for tool in body.tools]
    return _chat(body, model, list(messages_of(body.messages or ())), tools)


def prompt_chat_body(body: OllamaGenerateBody, model: ReadyModel) -> ChatBody:
    """Build a chat whose only user message is the prompt."""
    messages: list[Message] = [SystemMessage(role="system", content=body.system)] if body.system else []
    return _chat(body, model, [*messages, UserMessage(role="user", content=body.prompt or "")], None)


def completion_body(body: OllamaGenerateBody, model: ReadyModel, prompt: str | list[int]) -> CompletionBody:
    """Build a completion that continues the prompt without a chat template."""
    if body.system:
        raise _unsupported("a raw prompt, or a model without a chat template, has no system message", "system")
    sampling = {"max_tokens": UNLIMITED, **_sampling(body.options)}
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    return CompletionBody(
        model=model.name,
        prompt=prompt,
        suffix=body.suffix or None,
        response_format=_form(body),
        logprobs=logprobs,
        **sampling,
    )


def check_unsupported(body: OllamaGenerateBody) -> None:
    if body.template:
        raise _unsupported("template is not supported: the model's own is used, or none with raw: true", "template")
    if body.images:
        raise _unsupported(f"images: {TEXT_ONLY}", "images")


def _chat(body: OllamaTextBody, model: ReadyModel, messages: list[Message], tools: list[AnyTool] | None) -> ChatBody:
    return ChatBody(
        model=model.name,
        messages=messages,
        tools=tools,
        response_format=_form(body),
        chat_template_kwargs=_template_options(body, model),
        logprobs=body.logprobs,
        top_logprobs=body.top_logprobs if body.logprobs else None,
        **_sampling(body.options),
    )


def _sampling(options: OllamaOptions | None) -> dict[str, Any]:
    if options is None:
        return {}
    values = {ours: getattr(options, theirs) for theirs, ours in SAME.items()}
    if options.num_predict is not None and options.num_predict > 0:
        values["max_tokens"] = options.num_predict
    if options.seed is not None and options.seed >= 0:
        values["seed"] = options.seed
    if options.top_k is not None:
        values["top_k"] = max(0, options.top_k)
    if options.top_p is not None:
        values["top_p"] = max(LEAST_TOP_P, options.top_p)
    return values


def _form(body: OllamaTextBody) -> JsonObjectFormat | JsonSchemaFormat | None:
    if not body.format:
        return None
    if isinstance(body.format, str):
        return JsonObjectFormat(type="json_object", schema=None)
    return JsonSchemaFormat(type="json_schema", json_schema=NamedSchema(name="format", schema=body.format))


def _template_options(body: OllamaTextBody, model: ReadyModel) -> dict[str, Any] | None:
    if body.think is None:
        return None
    if body.think and not can_reason(model.text.chat_template):
        raise _unsupported(f"model {model.name!r} does not support thinking", "think")
    effort = body.think if isinstance(body.think, str) else None
    return reasoning_options(model.text.chat_template, bool(body.think), effort) or None


def messages_of(given: Sequence[OllamaMessage]) -> Iterator[Message]:
    """Yield the messages of a chat; calls without an id get one.

    A tool result without an id belongs to the first unanswered call of its tool, or of any tool if it names none.
    """
    unanswered: list[tuple[str, str]] = []
    num_calls = 0
    for index, message in enumerate(given):
        if message.images:
            param = f"messages[{index}].images"
            raise _unsupported(f"{param}: {TEXT_ONLY}", param)
        content = message.content or ""
        if message.role == "system":
            yield SystemMessage(role="system", content=content)
        elif message.role == "user":
            yield UserMessage(role="user", content=content)
        elif message.role == "assistant":
            calls: list[ToolCall | CustomToolCall] = []
            for call in message.tool_calls or ():
                function = CalledFunction(name=call.function.name, arguments=json.dumps(call.function.arguments))
                calls.append(ToolCall(id=call.id or f"call_{num_calls}", function=function))
                unanswered.append((calls[-1].id, function.name))
                num_calls += 1
            yield AssistantMessage(
                role="assistant", content=content, reasoning_content=message.thinking, tool_calls=calls or None
            )
        else:
            fitting = [call for call in unanswered if message.tool_name in (None, call[1])]
            call_id = message.tool_call_id or (fitting[0][0] if fitting else "")
            unanswered = [call for call in unanswered if call[0] != call_id]
            yield ToolMessage(role="tool", content=content, tool_call_id=call_id, name=message.tool_name)


def _tool(tool: OllamaTool) -> Tool:
    function = tool.function
    made = Function(name=function.name, description=function.description, parameters=function.parameters)
    return Tool(type="function", function=made)


def _unsupported(message: str, param: str) -> ApiError:
    return invalid(message, param, "unsupported_value")
