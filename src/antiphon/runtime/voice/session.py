"""`VoiceSession`: a conversation by voice, with commands in and events out, whatever the protocol."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Self

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.hearing import HearingEvent
from antiphon.runtime.voice.answering.responses import Responses
from antiphon.runtime.voice.dialogue.client_sound import ClientSound
from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.dialogue.listening import MAX_WAITING, Listening
from antiphon.runtime.voice.dialogue.turn_taking import TurnTaking
from antiphon.runtime.voice.events import (
    EndReason,
    ItemAdded,
    ItemDeleted,
    ItemDone,
    ItemRetrieved,
    ItemTruncated,
    SessionError,
    SessionEvent,
    SettingsChanged,
)
from antiphon.runtime.voice.items import FunctionOutput, Item, Message, answers_call
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.services import Echo, VoiceServices
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.runtime.voice.waterfall import Marks

Parameters = ParamSpec("Parameters")

#: Maximum responses in progress outside of the conversation.
MAX_RESPONSES = 16


def _command(
    method: Callable[Concatenate[VoiceSession, Parameters], None],
) -> Callable[Concatenate[VoiceSession, Parameters], None]:
    """Make a method run after the commands that wait for a commit, and not at all if the session is closed."""

    @wraps(method)
    def run(session: VoiceSession, /, *args: Parameters.args, **options: Parameters.kwargs) -> None:
        session._run(partial(method, session, *args, **options))

    return run


class VoiceSession:
    """A conversation by voice, in an event loop. Commands return at once and never raise.

    A command that fails emits a `SessionError` event with its `tag`. Events are read by iterating over the session,
    which ends after `close`. After `commit`, commands wait until the turn's item is in the conversation, so that their
    order holds.
    """

    def __init__(
        self,
        services: VoiceServices,
        settings: VoiceSettings,
        *,
        echo: Echo | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = SessionContext(services, settings, clock)
        self._echo = echo
        self._waiting: deque[Callable[[], None]] = deque()
        self._listening = Listening(self._context, self._hear, self._lose, self._overflow)
        self._responses = Responses(self._context, self._listening, echo, lambda: self._turns.note_idle())
        self._turns = TurnTaking(self._context, self._listening, self._responses, self._run_waiting)
        self._client_sound = ClientSound(self._context)
        self._has_overflowed = False

    @property
    def settings(self) -> VoiceSettings:
        return self._context.settings

    @property
    def items(self) -> Sequence[Item]:
        """Items of the conversation, in order."""
        return self._context.conversation.items

    def item(self, item_id: str) -> Item | None:
        return self._context.conversation.get(item_id)

    def start(self) -> None:
        """Begin to hear. Sound that is pushed before hearing is ready waits for it."""
        self._listening.start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionEvent:
        event = await self._context.events.get()
        if event is None:
            raise StopAsyncIteration
        return event

    async def overflowed(self) -> None:
        """Wait until the session has discarded unread events because there were too many.

        No more events come; close the session.
        """
        await self._context.events.overflowed.wait()

    # -- commands -----------------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        """Push sound of the microphone, mono at 16 kHz, as it comes."""
        if not self._context.is_closed and len(samples):
            self.push_cleaned(self.cleaned(samples))

    def cleaned(self, samples: Floats) -> Floats:
        """Return the microphone's next sound without our own voice, for `push_cleaned`.

        May run in a thread, one call at a time: the echo guard takes up to 3 % of the sound's length.
        """
        samples = np.asarray(samples, np.float32)
        return samples if self._echo is None else self._echo.clean(samples)

    def push_cleaned(self, samples: Floats) -> None:
        """Push sound that `cleaned` returned, in the same order."""
        if not self._context.is_closed and len(samples):
            self._responses.note_silence()
            self._listening.push(samples)

    @property
    def waiting_seconds(self) -> float:
        """Seconds of sound that wait until hearing is open."""
        return self._listening.waiting_seconds

    @_command
    def commit(self, tag: str | None = None) -> None:
        """End the turn here. `BufferCommitted` and its item follow, or the error `input_audio_buffer_commit_empty`."""
        self._turns.commit(tag)

    @_command
    def clear(self, tag: str | None = None) -> None:
        """Discard the sound of the open turn. `BufferCleared` follows."""
        self._turns.clear()

    @_command
    def configure(self, settings: VoiceSettings, tag: str | None = None) -> None:
        """Use other settings from here on; a response in progress keeps its own. `SettingsChanged` follows."""
        before, self._context.settings = self._context.settings, settings
        self._context.emit(SettingsChanged(settings))
        if settings.transcription_model != before.transcription_model:
            self._listening.restart()
        elif (settings.turns, settings.transcription) != (before.turns, before.transcription):
            self._listening.configure()

    @_command
    def add_item(self, item: Item, previous_item_id: str | None = None, tag: str | None = None) -> None:
        """Add an item after another one, at the beginning for `root`, at the end for None.

        `ItemAdded` and `ItemDone` follow. Sound in the item is transcribed, and responses wait for that. The output of
        a call that is not in the conversation is rejected.
        """
        conversation = self._context.conversation
        if isinstance(item, FunctionOutput) and not answers_call(item, conversation.items):
            message = f"the conversation has no function call {item.call_id!r}"
            self._reject("invalid_tool_call_id", message, tag, "item.call_id")
            return
        try:
            conversation.add(item, previous_item_id)
        except InvalidRequestError as error:
            self._reject("item_create_invalid", str(error), tag, "previous_item_id")
            return
        previous_id = conversation.previous_id(item.id)
        self._context.emit(ItemAdded(item, previous_id))
        self._context.emit(ItemDone(item, previous_id))
        if isinstance(item, Message):
            self._client_sound.transcribe(item)

    @_command
    def delete_item(self, item_id: str, tag: str | None = None) -> None:
        if not self._context.conversation.remove(item_id):
            self._reject_unknown("delete", item_id, tag)
            return
        self._responses.forget(item_id)
        self._context.emit(ItemDeleted(item_id))

    @_command
    def retrieve_item(self, item_id: str, tag: str | None = None) -> None:
        item = self.item(item_id)
        if item is None:
            self._reject_unknown("retrieve", item_id, tag)
        else:
            self._context.emit(ItemRetrieved(item))

    @_command
    def truncate(self, item_id: str, content_index: int, end_ms: int, tag: str | None = None) -> None:
        """Cut an answer to the words heard in the first `end_ms` of its sound, which is all that the client played."""
        if self.item(item_id) is None:
            self._reject_unknown("truncate", item_id, tag)
            return
        if content_index != 0:
            self._reject("invalid_value", f"content_index is {content_index}; it must be 0", tag, "content_index")
            return
        wrong = self._responses.truncate(item_id, end_ms)
        if wrong is not None:
            self._reject("invalid_value", wrong, tag, "audio_end_ms")
        else:
            self._context.emit(ItemTruncated(item_id, content_index, end_ms))

    @_command
    def respond(self, request: ResponseRequest | None = None, tag: str | None = None) -> None:
        """Start a response. `ResponseStarted` follows at once."""
        request, active = request or ResponseRequest(), self._responses.active
        if not (request.settings or self.settings).answer:
            self._reject("invalid_request", "a transcription session makes no responses", tag)
        elif request.in_conversation and active is not None:
            message = f"response {active.id} of this conversation is in progress; wait for it or cancel it"
            self._reject("conversation_already_has_active_response", message, tag)
        elif not request.in_conversation and self._responses.num_others >= MAX_RESPONSES:
            message = f"{MAX_RESPONSES} responses outside of the conversation are in progress, the most there may be"
            self._reject("too_many_responses", message, tag)
        else:
            self._responses.start(request, Marks.of_request(self._context.clock))

    @_command
    def cancel(self, response_id: str | None = None, tag: str | None = None) -> None:
        """Cancel a response by its id, or the conversation's response for None."""
        response = self._responses.find(response_id)
        if response is None:
            which = "no response" if response_id is None else f"no response {response_id!r}"
            self._reject("response_cancel_not_active", f"{which} is in progress", tag, "response_id")
        else:
            self._responses.cancel(response, EndReason.CLIENT_CANCELLED)

    def close(self) -> None:
        """End the session and abort everything that it has in the engine. May be called at any time, and twice."""
        self._context.close()
        self._waiting.clear()
        self._responses.close()
        self._listening.close()
        self._context.tasks.cancel()

    async def aclose(self) -> None:
        """Close the session, and wait until all its tasks have ended."""
        self.close()
        await self._context.tasks.ended()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self.aclose())

    # -- execution of commands ----------------------------------------------------------------------------------

    def _run(self, command: Callable[[], None]) -> None:
        if self._context.is_closed:
            return
        if self._turns.has_commits:
            self._waiting.append(command)
        else:
            command()

    def _run_waiting(self) -> None:
        while self._waiting and not self._turns.has_commits:
            self._waiting.popleft()()

    def _reject_unknown(self, verb: str, item_id: str, tag: str | None) -> None:
        message = f"the conversation has no item {item_id!r}"
        self._reject(f"item_{verb}_invalid_item_id", message, tag, "item_id")

    def _reject(self, code: str, message: str, tag: str | None, param: str | None = None) -> None:
        self._context.emit(SessionError(code, message, param=param, tag=tag))

    # -- callbacks ----------------------------------------------------------------------------------------------

    def _hear(self, event: HearingEvent) -> None:
        if not self._context.is_closed:
            self._turns.take(event)

    def _lose(self, error: Exception | None) -> None:
        if not self._context.is_closed:
            self._turns.lose(error)

    def _overflow(self) -> None:
        message = f"more than {MAX_WAITING:.0f} s of sound wait to be heard; what follows is dropped"
        if not self._has_overflowed:
            self._reject("input_audio_buffer_overflow", message, None)
        self._has_overflowed = True
