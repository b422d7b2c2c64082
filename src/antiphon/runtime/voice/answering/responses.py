"""`Responses`: the responses of a session, one of the conversation at a time and any number outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from antiphon.audio.resample import resample
from antiphon.audio.samples import SPEECH_RATE
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.voice.answering.listener import Listener
from antiphon.runtime.voice.answering.playback import Playback
from antiphon.runtime.voice.answering.response import Response, ResponseHooks
from antiphon.runtime.voice.dialogue.client_sound import transcribed_items
from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.dialogue.listening import Listening
from antiphon.runtime.voice.events import EndReason, ResponseStatus
from antiphon.runtime.voice.items import Item, ItemStatus, Message, SoundPart
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.services import Echo
from antiphon.runtime.voice.waterfall import Marks

#: Minimum milliseconds of speech that interrupt an answer while it is heard.
MIN_INTERRUPTION_MS = 200
#: Milliseconds of an interrupted answer that a client may still play before it learns of the interruption.
CLIENT_STOPS_MS = 300


class Responses:
    """Responses in progress. `on_idle` is called when the conversation's response has ended."""

    def __init__(
        self, context: SessionContext, listening: Listening, echo: Echo | None, on_idle: Callable[[], None]
    ) -> None:
        self._context = context
        self._listening = listening
        self._echo = echo
        self._on_idle = on_idle
        self._hooks = ResponseHooks(self._on_sound, self._on_done)
        #: The conversation's response while it is being made.
        self.active: Response | None = None
        #: Ids of the items that the conversation's latest response answers, or answered.
        self.answered_ids: frozenset[str] = frozenset()
        self._others: dict[str, Response] = {}
        self._held: set[Response] = set()
        self._playbacks: dict[str, Playback] = {}
        #: Listener of the conversation's messages. Sound of other responses is taken to be played on its own.
        self._listener = Listener()

    # -- starting -----------------------------------------------------------------------------------------------

    def start(self, request: ResponseRequest, marks: Marks) -> Response:
        """Start a response, and emit it from the beginning."""
        ids: Sequence[str] = ()
        if request.items is None:
            ids = self._context.complete_ids()
            items = partial(self._context.transcribed, ids)
        else:
            items = partial(transcribed_items, self._context, request.items)
        listener = self._listener if request.in_conversation else Listener()
        response = Response(self._context, request, items, marks, listener, self._hooks, frozenset(ids))
        self._begin(response)
        return response

    def prepare(self, items: Sequence[Item], marks: Marks) -> Response:
        """Start a response of the conversation before it is known to be needed: `adopt` or `drop` it later."""
        known, ids = partial(transcribed_items, self._context, items), frozenset(item.id for item in items)
        response = Response(self._context, ResponseRequest(), known, marks, self._listener, self._hooks, ids)
        self._held.add(response)
        self._listening.hold_hypotheses(True)
        return response

    def adopt(self, response: Response) -> None:
        self._held.discard(response)
        self._begin(response)

    def drop(self, response: Response) -> None:
        response.abort()
        self._held.discard(response)
        self._listening.hold_hypotheses(self.active is not None)

    def _begin(self, response: Response) -> None:
        if response.state.in_conversation:
            assert self.active is None
            self.active = response
            self.answered_ids = response.input_ids
            self._listening.hold_hypotheses(True)
        else:
            self._others[response.id] = response
        response.begin()

    # -- ending -------------------------------------------------------------------------------------------------

    def find(self, response_id: str | None) -> Response | None:
        """Return a response in progress by its id, or the conversation's for None."""
        if response_id is None or (self.active is not None and self.active.id == response_id):
            return self.active
        return self._others.get(response_id)

    @property
    def num_others(self) -> int:
        """Number of responses in progress outside of the conversation."""
        return len(self._others)

    def abort_active(self) -> None:
        """Abort the conversation's response without events, as the first step of an interruption."""
        if self.active is not None:
            self.active.abort()

    def interrupt(self) -> None:
        """End the conversation's response, and the playing of earlier ones, because the person speaks."""
        if self.active is not None:
            self.cancel(self.active, EndReason.TURN_DETECTED)
        elif self.is_heard:
            self._stop_playing()
            self._stop_echo()
        self._listening.set_min_speech(0)

    def cancel(self, response: Response, reason: EndReason) -> None:
        """End a response in progress. If it is the conversation's, the listener stops playing."""
        if response is self.active:
            response.abort()
            self._stop_playing()
        response.cancel(reason)

    def _stop_playing(self) -> None:
        """Stop playing. Messages that were not heard to their end keep only what was heard."""
        now = self._context.clock()
        for item_id, playback in self._playbacks.items():
            if playback.is_playing(now):
                playback.stop(now)
                self._keep_heard(item_id, playback)
        self._listener.stop(now)

    def truncate(self, item_id: str, end_ms: int) -> str | None:
        """Record how much of a message the client played; return the error message if that is impossible."""
        playback = self._playbacks.get(item_id)
        if playback is None:
            return f"item {item_id!r} has no sound of an answer"
        sent_ms = round(playback.seconds * 1000)
        if end_ms > sent_ms:
            return f"audio_end_ms is {end_ms}; the item has {sent_ms} ms of sound"
        now = self._context.clock()
        if playback.is_playing(now):
            self._listener.stop(now)
        playback.truncate(end_ms / 1000)
        self._keep_heard(item_id, playback)
        return None

    def _keep_heard(self, item_id: str, playback: Playback) -> None:
        """Cut a message to what was heard; a message in progress is cut when it ends."""
        item = self._context.conversation.get(item_id)
        if isinstance(item, Message) and item.status is not ItemStatus.IN_PROGRESS:
            part = SoundPart(playback.heard_text, playback.seconds)
            self._context.conversation.replace(replace(item, parts=(part,)), is_change=True)

    def forget(self, item_id: str) -> None:
        """Discard the playback of a deleted item, unless its response is in progress."""
        if self.active is None or item_id not in self.active.output.playbacks:
            self._playbacks.pop(item_id, None)

    def close(self) -> None:
        """Abort all responses, without events."""
        responses = [*self._others.values(), *self._held, *([self.active] if self.active else [])]
        for response in responses:
            response.abort()

    # -- sound --------------------------------------------------------------------------------------------------

    @property
    def is_heard(self) -> bool:
        """Whether an answer's sound is being played, as far as is known."""
        return self._listener.remaining(self._context.clock()) > 0

    def note_silence(self) -> None:
        """Let any speech open a turn, if no answer is being played. Called as time passes."""
        if not self.is_heard:
            self._listening.set_min_speech(0)

    def _on_sound(self, response: Response, chunk: SpeechChunk, wait: float) -> None:
        if response is self.active:
            self._playbacks.update(response.output.playbacks)
            self._listening.set_min_speech(MIN_INTERRUPTION_MS)
        if self._echo is not None:
            samples = resample(np.asarray(chunk.samples, np.float32), chunk.rate, SPEECH_RATE)
            self._echo.played(samples, self._listening.position_ms + wait * 1000)

    def _stop_echo(self) -> None:
        if self._echo is not None:
            self._echo.stopped(self._listening.position_ms + CLIENT_STOPS_MS)

    def _on_done(self, response: Response) -> None:
        if self._others.pop(response.id, None) is None and response is self.active:
            self.active = None
            if response.state.status is ResponseStatus.CANCELLED:
                self._stop_echo()
            self._listening.hold_hypotheses(False)
            self._listening.rest(round(self._listener.remaining(self._context.clock()) * 1000))
            self._on_idle()
