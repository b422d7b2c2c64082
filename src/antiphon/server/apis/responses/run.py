"""`ResponseRun`: the state of one response while it is generated."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.responses.event_log import EventLog
from antiphon.server.apis.responses.history import History
from antiphon.server.apis.responses.output import ResponseOutput
from antiphon.server.apis.responses.request_schemas import ITEMS, ResponseBody
from antiphon.server.apis.responses.response_usage import response_usage
from antiphon.server.apis.responses.store import StoredResponse
from antiphon.server.apis.responses.tools import response_tools
from antiphon.server.generation.chat.chat_call import SERVICE_TIER, ChatCall
from antiphon.server.generation.text.logprobs import RankedTokenEntry
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.server.stored.conversations import ConversationStore
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.telemetry.logs import log
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Piece

IN_PROGRESS = "in_progress"


class ResponseRun:
    """State of a response, which turns the engine's events into events of the API.

    `body` returns the response as generated so far. In the background, `response_id` is known in advance, and `log`
    collects the events.
    """

    def __init__(
        self,
        request: ResponseBody,
        chat: ChatCall,
        history: History,
        owner: int | None,
        response_id: str | None = None,
        log: EventLog | None = None,
    ) -> None:
        self.request = request
        self.chat = chat
        self.owner = owner
        self.id = response_id or f"resp_{uuid.uuid4().hex}"
        self.status = IN_PROGRESS
        self.usage: TokenUsage | None = None
        self.error: ApiError | None = None
        self.log = log
        self._history = history
        self._output = ResponseOutput(called=response_tools(request, history.items).called)
        self._parser = chat.parser()
        self._logprobs: list[RankedTokenEntry] = []
        self._ended_at: int | None = None

    @property
    def is_kept(self) -> bool:
        return self.request.store is not False and (self.status != "failed" or self.log is not None)

    def take(self, delta: TextDelta) -> Iterator[WireEvent]:
        self._logprobs += self.chat.logprobs(delta) or []
        pieces = self._allowed(self._parser.feed(self.chat.text(delta)))
        if not pieces:  # the parser holds the text back until more is known
            return
        logprobs, self._logprobs = self._logprobs, []
        yield from self._output.take(pieces, logprobs)

    def _allowed(self, pieces: list[Piece]) -> list[Piece]:
        """Return the pieces without the calls beyond `max_tool_calls`."""
        most = self.request.max_tool_calls
        if most is None:
            return pieces
        return [piece for piece in pieces if not isinstance(piece, CallStart | CallArguments) or piece.index < most]

    def end(self, ended: Ended) -> Iterator[WireEvent]:
        is_complete = ended.finish_reason == "stop"
        yield from self._finish("completed" if is_complete else "incomplete")

    def break_off(self, error: ApiError) -> Iterator[WireEvent]:
        """End early; a cancelled response keeps its output so far, and any other error makes the response fail."""
        is_cancelled = error.code == "cancelled"
        self.error = None if is_cancelled else error
        yield from self._finish("cancelled" if is_cancelled else "failed")

    def _finish(self, status: str) -> Iterator[WireEvent]:
        self.status, self._ended_at = status, int(time.time())
        pieces = self._parser.finish(status == "incomplete")
        yield from self._output.take(self._allowed(pieces), self._logprobs)
        yield from self._output.finish(status == "completed")

    def stored(self) -> StoredResponse:
        history, items = self._history, [*self._history.items, *ITEMS.validate_python(self._completed())]
        return StoredResponse(self.body(), history.inputs, items, self.owner, self._output.cuts)

    def extend_conversation(self, store: ConversationStore) -> None:
        """Add input and output to the conversation, unless the response failed or the conversation was deleted."""
        conversation = self._history.conversation
        if conversation is None or self.status == "failed":
            return
        try:
            found = store.find(conversation.id, self.owner)
            store.extend(found, [*self._history.given, *self._completed()])
        except ApiError as error:
            log("a response was not added to its conversation", logging.WARNING, cause=error.code)

    def _completed(self) -> list[WireEvent]:
        return [{**item, "status": "completed"} for item in self._output.items]

    def body(self) -> WireEvent:
        request, params = self.request, self.chat.call.params
        choice = request.tool_choice or "auto"
        failure = None if self.error is None else {"code": "server_error", "message": self.error.message}
        reason = {"reason": "max_output_tokens"} if self.status == "incomplete" else None
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.chat.created,
            "completed_at": self._ended_at if self.status == "completed" else None,
            "status": self.status,
            "background": self.log is not None,
            "conversation": self._conversation(),
            "error": failure,
            "incomplete_details": reason,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": request.max_tool_calls,
            "metadata": request.metadata or {},
            "model": self.chat.model.name,
            "output": [dict(item) for item in self._output.items],
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": request.previous_response_id,
            "prompt_cache_key": request.prompt_cache_key,
            "prompt_cache_retention": request.prompt_cache_retention,
            "reasoning": {"effort": request.reasoning.effort if request.reasoning else None, "summary": None},
            "safety_identifier": request.safety_identifier,
            "service_tier": SERVICE_TIER,
            "store": request.store is not False,
            "temperature": params.temperature,
            "text": _text(request),
            "tool_choice": choice if isinstance(choice, str) else choice.model_dump(exclude_none=True),
            "tools": [tool.model_dump(exclude_none=tool.type != "function") for tool in request.tools or ()],
            "top_logprobs": request.top_logprobs or 0,
            "top_p": params.top_p,
            "truncation": request.truncation or "disabled",
            "usage": self._usage(),
            "user": request.user,
        }

    def _usage(self) -> WireEvent | None:
        if self.usage is None:
            return None
        thought = self._output.reasoning
        tokenizer = self.chat.model.text.tokenizer
        num_thought = len(tokenizer.encode(thought, add_special_tokens=False, parse_special=False)) if thought else 0
        return response_usage(self.usage, num_thought, self.request.timings)

    def _conversation(self) -> dict[str, str] | None:
        conversation = self._history.conversation
        return None if conversation is None else {"id": conversation.id}


def _text(request: ResponseBody) -> WireEvent:
    options = request.text
    form = options.format if options is not None else None
    shown: WireEvent = {"format": {"type": "text"}}
    if form is not None:
        shown["format"] = form.model_dump(by_alias=True, exclude_none=True)
    if options is not None and options.verbosity is not None:
        shown["verbosity"] = options.verbosity
    return shown
