"""`Response`: one response, from its request to its last event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.voice.answering.listener import Listener
from antiphon.runtime.voice.answering.making import Failed, Made, Making, MessageEnd, Piece
from antiphon.runtime.voice.answering.output import Output
from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.events import (
    EndReason,
    ResponseDone,
    ResponseStarted,
    ResponseState,
    ResponseStatus,
    SessionError,
    Usage,
)
from antiphon.runtime.voice.items import Item, ItemStatus, new_id
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.services import AnswerUsage
from antiphon.runtime.voice.settings import Modality
from antiphon.runtime.voice.waterfall import Marks
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content


@dataclass(frozen=True)
class ResponseHooks:
    """Callbacks of a session. `on_sound` receives each chunk that goes out and the seconds until it is heard."""

    on_sound: Callable[[Response, SpeechChunk, float], None]
    on_done: Callable[[Response], None]


class Response:
    """A response, made from its creation on; nothing of it is emitted before `begin`."""

    def __init__(
        self,
        context: SessionContext,
        request: ResponseRequest,
        items: Callable[[], Awaitable[Sequence[Item]]],
        marks: Marks,
        listener: Listener,
        hooks: ResponseHooks,
        input_ids: frozenset[str] = frozenset(),
    ) -> None:
        self._context = context
        self._hooks = hooks
        self.marks = marks
        #: Ids of the conversation's items that it answers; their transcripts may still be made.
        self.input_ids = input_ids
        settings = request.settings or context.settings
        self.state = ResponseState(new_id("resp"), settings, request.in_conversation, request.metadata)
        #: Seconds of the speech that it answers.
        self.input_seconds = 0.0
        self.output = Output(
            self.state.id,
            settings.modality,
            context.conversation if request.in_conversation else None,
            listener,
            context.emit,
            context.clock,
        )
        self._making = Making(context.tasks, context.services, settings, items, marks)

    @property
    def id(self) -> str:
        return self.state.id

    @property
    def is_done(self) -> bool:
        return self.state.status is not ResponseStatus.IN_PROGRESS

    @property
    def is_unheard(self) -> bool:
        """Whether no output has gone out that the person can have heard or read."""
        return not (self.output.seconds if self.state.settings.modality is Modality.AUDIO else self.output.items)

    @property
    def has_failed(self) -> bool:
        """Whether the response failed before it began."""
        return self._making.has_failed

    def begin(self) -> None:
        """Emit the output so far, and the rest as it is made."""
        self._context.emit(ResponseStarted(self.state))
        self._making.release(self._take)

    def abort(self) -> None:
        """Stop making the response, without events. The engine's calls are closed before this returns."""
        self._making.abort()

    def cancel(self, reason: EndReason) -> None:
        """End a response that has begun. Its items keep only what was played."""
        if self.is_done:
            return
        self.abort()
        self.output.stop()
        self._end(ResponseStatus.CANCELLED, self._making.usage, reason)

    def _take(self, piece: Piece) -> None:
        match piece:
            case Content(text):
                self.marks.note("first_text")
                self.output.write(text)
            case SpeechChunk():
                self.marks.note("first_sound")
                self._hooks.on_sound(self, piece, self.output.send(piece))
            case MessageEnd():
                self.output.close()
            case CallStart(_, name):
                self.output.call(name)
            case CallArguments(_, text):
                self.output.add_arguments(text)
            case Made(usage):
                self._complete(usage)
            case Failed(error, usage):
                self._fail(error, usage)

    def _complete(self, usage: AnswerUsage) -> None:
        if usage.is_repeating:
            self._end(ResponseStatus.INCOMPLETE, usage, EndReason.REPETITION)
        elif usage.is_cut:
            self._end(ResponseStatus.INCOMPLETE, usage, EndReason.MAX_TOKENS)
        else:
            self._end(ResponseStatus.COMPLETED, usage)

    def _fail(self, error: Exception, usage: AnswerUsage) -> None:
        """End the response as failed. An error of the engine, not of the request, is also emitted for the session."""
        is_request = isinstance(error, AntiphonError) and not isinstance(error, EngineError)
        code = "invalid_request" if is_request else "engine_error"
        message = str(error) if isinstance(error, AntiphonError) else f"{type(error).__name__}: {error}"
        if not is_request:
            self._context.emit(SessionError(code, message, is_request=False))
        self.state = replace(self.state, error=(code, message))
        self._end(ResponseStatus.FAILED, usage)

    def _end(self, status: ResponseStatus, usage: AnswerUsage, reason: EndReason | None = None) -> None:
        self.output.close(ItemStatus.COMPLETED if status is ResponseStatus.COMPLETED else ItemStatus.INCOMPLETE)
        self.state = replace(
            self.state,
            status=status,
            reason=reason,
            output=tuple(self.output.items),
            usage=Usage(
                usage.input_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                self.input_seconds,
                self.output.seconds,
            ),
            waterfall=self.marks.waterfall,
        )
        self._context.emit(ResponseDone(self.state))
        self._hooks.on_done(self)
