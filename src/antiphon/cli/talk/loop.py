"""`Talk`: a conversation in which sound goes to a voice session, and the session's events are shown and played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.cli.talk.outputs import AnswerOutput
from antiphon.cli.talk.progress import ConversationProgress
from antiphon.cli.talk.screen import Screen
from antiphon.errors import AudioError, EngineError
from antiphon.runtime.voice.events import (
    BufferCommitted,
    ResponseDone,
    SessionError,
    SessionEvent,
    SoundDelta,
    TranscriptDone,
    TranscriptFailed,
    UserSpeechStarted,
)

#: Seconds of sound per block that is sent to the session.
BLOCK_SECONDS = 0.02
BLOCK = round(BLOCK_SECONDS * SPEECH_RATE)
#: Minimum seconds of silence after a recording.
TRAILING_SECONDS = 1.0
EMPTY = "input_audio_buffer_commit_empty"


class Session(Protocol):
    """Interface of a `VoiceSession`, in this process or on a server. Commands return at once."""

    def __aiter__(self) -> AsyncIterator[SessionEvent]: ...

    def push(self, samples: Floats) -> None: ...

    def commit(self) -> None: ...

    def respond(self) -> None: ...

    def cancel(self) -> None: ...

    def truncate(self, item_id: str, content_index: int, end_ms: int) -> None: ...


class Talk:
    """Conversation. `follow` must run as a task; `failure` is the first error that it received.

    In a manual conversation, `ask` ends the person's turns.
    """

    def __init__(self, session: Session, output: AnswerOutput, screen: Screen, is_manual: bool = False) -> None:
        self._session = session
        self._output = output
        self._screen = screen
        self._is_manual = is_manual
        self._progress = ConversationProgress()
        self._changed = asyncio.Event()
        self._is_last_commit = False  # the commit of `_say_nothing` is under way
        self._last_item: str | None = None
        self.failure: str | None = None
        self.has_ended = asyncio.Event()

    # -- what comes back ----------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Show and play the session's events until it ends."""
        async for event in self._session:
            self._take(event)
        self.has_ended.set()
        self._changed.set()

    def _take(self, event: SessionEvent) -> None:
        self._progress.take(event)
        is_shown = True
        match event:
            case UserSpeechStarted():
                self._stop_playing()
            case SoundDelta(part, samples, rate):
                self._output.play(part.item_id, samples, rate)
            case ResponseDone(response) if response.error is not None:
                self.failure = self.failure or response.error[1]
            case BufferCommitted(item_id, _) if self._is_last_commit:
                self._is_last_commit, self._last_item = False, item_id
            case SessionError(code) if code == EMPTY and self._is_last_commit:
                self._is_last_commit = is_shown = False
            case SessionError(code) if code == EMPTY and self._is_manual:
                is_shown = False
                self._drop_request()
            case TranscriptDone(_, _, text) if self._is_manual and not text.strip():
                self._drop_request()
            case SessionError(_, message, is_request) if not is_request:
                self.failure = self.failure or message
        if is_shown:
            self._screen.show(event)
        if isinstance(event, TranscriptDone | TranscriptFailed) and event.item_id == self._last_item:
            self._last_item = None
            if self._progress.is_owed(event.item_id):
                self._session.respond()
        self._changed.set()

    def _drop_request(self) -> None:
        """Cancel the requested answer: no speech was heard."""
        self._session.cancel()
        self._screen.line("(nothing was heard)")

    def _stop_playing(self) -> bool:
        """Stop the answer being played; return False if no answer is playing.

        The conversation keeps only the part that was heard.
        """
        played = self._output.stop()
        if played is not None:
            self._screen.interrupted()
            self._session.truncate(played.item_id, 0, played.milliseconds)
        return played is not None

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not (condition() or self.has_ended.is_set()):
            self._changed.clear()
            await self._changed.wait()

    # -- what goes in -------------------------------------------------------------------------------------------

    def hear(self, samples: Floats) -> None:
        """Take sound of the microphone at 16 kHz."""
        self._output.hear(samples)
        self._session.push(samples)

    def ask(self) -> None:
        """End the person's turn and request an answer."""
        self._session.commit()
        self._session.respond()

    def interrupt(self) -> bool:
        """Stop the answer; return False if no answer is made or played."""
        is_made = self._progress.is_answering
        if is_made:
            self._session.cancel()
        return self._stop_playing() or is_made

    async def answered(self) -> None:
        """Wait until everything said has been answered and the answers have been played."""
        await self._until(lambda: self._progress.is_idle)
        while self._output.is_playing and not self.has_ended.is_set():
            await asyncio.sleep(BLOCK_SECONDS)

    async def recording(self, samples: Floats) -> None:
        """Send a recording in real time; return once all of it has been answered.

        In a manual conversation, it is a single turn. Raises if no speech was heard, or after a failure.
        """
        paced = _Pace()
        for start in range(0, len(samples), BLOCK):
            self.hear(samples[start : start + BLOCK])
            await paced.wait()
            if self.has_ended.is_set():
                break
        if self._is_manual:
            self.ask()
            await self._until(lambda: self._progress.is_idle and self._progress.num_responses > 0)
        else:
            await self._say_nothing(paced)
        if self.failure is not None:
            raise EngineError(self.failure)
        if not self._progress.num_turns:
            raise AudioError("no speech was heard in the recording")

    async def _say_nothing(self, paced: _Pace) -> None:
        """Send silence until everything has been answered, then commit the rest.

        The commit makes sure that no sound is left unheard: a server may still have been loading a model.
        """
        seconds = 0.0
        while not (self._progress.is_idle and seconds >= TRAILING_SECONDS) and not self.has_ended.is_set():
            self.hear(np.zeros(BLOCK, np.float32))
            seconds += BLOCK_SECONDS
            await paced.wait()
        self._is_last_commit = True
        self._session.commit()
        await self._until(lambda: not self._is_last_commit and self._last_item is None and self._progress.is_idle)


class _Pace:
    """Clock of sound blocks: each `wait` ends a block's length after the last one, or at once if it is late."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._due = self._clock()

    async def wait(self) -> None:
        self._due += BLOCK_SECONDS
        await asyncio.sleep(max(0.0, self._due - self._clock()))
