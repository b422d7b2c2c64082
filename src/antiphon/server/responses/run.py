"""`ResponseRun`: one response from its understanding to its end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter

from antiphon.runtime.messages import Ended, TextDelta
from antiphon.server.chat.request_schemas import ChatBody
from antiphon.server.chat.route import Chat
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.responses.items import messages
from antiphon.server.responses.output import Event, ResponseOutput
from antiphon.server.responses.request_schemas import ChosenTool, Item, ResponseBody, ResponseTool, SchemaFormat
from antiphon.server.responses.store import StoredResponse
from antiphon.server.serving.models import ReadyModel
from antiphon.server.text.messages import Function, FunctionReference, NamedTool, Tool
from antiphon.server.text.request_schemas import (
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
    SamplingBody,
    TextFormat,
)
from antiphon.server.tool_calls.output_parser import THINK

ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])


def chat_body(body: ResponseBody, items: Sequence[Item], model: ReadyModel) -> ChatBody:
    """The same question as a chat."""
    shared = {name: getattr(body, name) for name in SamplingBody.model_fields}
    wants_logprobs = body.top_logprobs is not None or "message.output_text.logprobs" in (body.include or ())
    return ChatBody(
        **shared,
        messages=messages(body.instructions, items),
        max_completion_tokens=body.max_output_tokens,
        tools=None if body.tools is None else [_tool(tool) for tool in body.tools],
        tool_choice=_choice(body),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=_form(body),
        logprobs=wants_logprobs,
        top_logprobs=body.top_logprobs,
        chat_template_kwargs=_template_options(body, model),
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


def _template_options(body: ResponseBody, model: ReadyModel) -> dict[str, Any] | None:
    """How much a model thinks is for its template to say; an effort that the template does not know is refused."""
    effort = body.reasoning.effort if body.reasoning is not None else None
    options = dict(body.chat_template_kwargs or {})
    source = model.text.chat_template.source if model.text.chat_template is not None else ""
    if effort is None:
        pass
    elif "reasoning_effort" in source:
        options.setdefault("reasoning_effort", effort)
    elif "enable_thinking" in source and effort in ("none", "medium"):
        options.setdefault("enable_thinking", effort != "none")
    elif (effort == "none") == (THINK in source):
        message = f"the chat template of model {model.name!r} does not know a reasoning effort of {effort}"
        raise invalid(message, "reasoning.effort", "unsupported_value")
    return options or None


class ResponseRun:
    """Takes what the engine gives and tells events; `body` is the response as it stands."""

    def __init__(
        self, request: ResponseBody, chat: Chat, items: list[Item], inputs: list[dict[str, Any]], owner: int | None
    ) -> None:
        self.request = request
        self.chat = chat
        self.owner = owner
        self.id = f"resp_{uuid.uuid4().hex}"
        self.status = "in_progress"
        self.usage: dict[str, Any] | None = None
        self.error: ApiError | None = None
        self._items = items
        self._inputs = inputs
        self._output = ResponseOutput()
        self._parser = chat.parser()
        self._logprobs: list[dict[str, Any]] = []
        self._ended_at: int | None = None

    @property
    def is_kept(self) -> bool:
        return self.request.store is not False and self.status != "failed"

    def take(self, delta: TextDelta) -> Iterator[Event]:
        self._logprobs += self.chat.logprobs(delta) or []
        pieces = self._parser.feed(self.chat.text(delta))
        if not pieces:  # held back until more is known
            return
        logprobs, self._logprobs = self._logprobs, []
        yield from self._output.take(pieces, logprobs)

    def end(self, ended: Ended) -> Iterator[Event]:
        is_complete = ended.finish_reason == "stop"
        yield from self._finish("completed" if is_complete else "incomplete")

    def break_off(self, error: ApiError) -> Iterator[Event]:
        """A response that was cancelled keeps what it has; any other failure is an error."""
        is_cancelled = error.code == "cancelled"
        self.error = None if is_cancelled else error
        yield from self._finish("cancelled" if is_cancelled else "failed")

    def _finish(self, status: str) -> Iterator[Event]:
        self.status, self._ended_at = status, int(time.time())
        yield from self._output.take(self._parser.finish(), self._logprobs)
        yield from self._output.finish(status == "completed")

    def stored(self) -> StoredResponse:
        output = [{**item, "status": "completed"} for item in self._output.items]
        return StoredResponse(self.body(), self._inputs, [*self._items, *ITEMS.validate_python(output)], self.owner)

    def body(self) -> dict[str, Any]:
        request, params = self.request, self.chat.call.params
        choice = request.tool_choice or "auto"
        failure = None if self.error is None else {"code": "server_error", "message": self.error.message}
        reason = {"reason": "max_output_tokens"} if self.status == "incomplete" else None
        form = request.text.format if request.text is not None else None
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.chat.created,
            "completed_at": self._ended_at if self.status == "completed" else None,
            "status": self.status,
            "background": False,
            "error": failure,
            "incomplete_details": reason,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": self.chat.model.name,
            "output": [dict(item) for item in self._output.items],
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": request.previous_response_id,
            "reasoning": {"effort": request.reasoning.effort if request.reasoning else None, "summary": None},
            "store": request.store is not False,
            "temperature": params.temperature,
            "text": {"format": {"type": "text"} if form is None else form.model_dump(by_alias=True, exclude_none=True)},
            "tool_choice": choice if isinstance(choice, str) else choice.model_dump(),
            "tools": [tool.model_dump() for tool in request.tools or ()],
            "top_logprobs": request.top_logprobs or 0,
            "top_p": params.top_p,
            "truncation": "disabled",
            "usage": self._usage(),
            "user": request.user,
        }

    def _usage(self) -> dict[str, Any] | None:
        if self.usage is None:
            return None
        thought = self._output.reasoning
        tokenizer = self.chat.model.text.tokenizer
        num_thought = len(tokenizer.encode(thought, add_special_tokens=False, parse_special=False)) if thought else 0
        usage = {
            "input_tokens": self.usage["prompt_tokens"],
            "input_tokens_details": {**self.usage["prompt_tokens_details"], "cache_write_tokens": 0},
            "output_tokens": self.usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": min(num_thought, self.usage["completion_tokens"])},
            "total_tokens": self.usage["total_tokens"],
        }
        return usage | ({"timings": self.usage["timings"]} if "timings" in self.usage else {})
