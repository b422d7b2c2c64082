"""`TurnTaking`: turns hearing events into items of the conversation, and asks for answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from antiphon.runtime.calls import hearing as heard
from antiphon.runtime.calls.turn_settings import TurnDetection
from antiphon.runtime.voice.answering.responses import Responses
from antiphon.runtime.voice.dialogue.answers import Answers
from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.dialogue.listening import Listening
from antiphon.runtime.voice.dialogue.turn import DialogueTurn
from antiphon.runtime.voice.events import (
    BufferCleared,
    BufferCommitted,
    IdleTimedOut,
    ItemAdded,
    ItemDone,
    SessionError,
    TranscriptDelta,
    TranscriptDone,
    TranscriptFailed,
    TranscriptUnsettled,
    UserSpeechStarted,
    UserSpeechStopped,
)
from antiphon.runtime.voice.items import Message, Role, SoundPart, new_id


class TurnTaking:
    """Consumer of hearing events. `on_committed` is called when a commit was carried out or failed."""

    def __init__(
        self,
        context: SessionContext,
        listening: Listening,
        responses: Responses,
        on_committed: Callable[[], None],
    ) -> None:
        self._context = context
        self._listening = listening
        self._responses = responses
        self._on_committed = on_committed
        self._answers = Answers(context, responses, self._is_spoken_to)
        self._turns: dict[int, DialogueTurn] = {}
        self._commits: deque[str | None] = deque()  # tags of pending commits
        self._num_clears = 0

    # -- commands -----------------------------------------------------------------------------------------------

    @property
    def has_commits(self) -> bool:
        return bool(self._commits)

    def commit(self, tag: str | None) -> None:
        self._commits.append(tag)
        self._listening.commit()

    def clear(self) -> None:
        self._num_clears += 1
        self._listening.clear()

    def note_idle(self) -> None:
        """Answer turns that had to wait, now that the conversation's response has ended."""
        self._answers.answer_owed()

    # -- events of hearing --------------------------------------------------------------------------------------

    def take(self, event: heard.HearingEvent) -> None:
        match event:
            case heard.SpeechStarted(number, start_ms):
                self._start(number, start_ms)
            case heard.TurnText(number, settled, tail):
                self._settle(self._turn(number), settled)
                self._show_tail(self._turn(number), tail)
            case heard.TurnGuess(number, text, _):
                self._answers.speculate(self._turn(number), text)
            case heard.TurnResumed(number):
                self._answers.drop_speculation(self._turn(number))
            case heard.TurnEnded(number, _, end_ms, _):
                self._end(self._turn(number), end_ms)
            case heard.TurnTranscript(number):
                self._finish(self._turns.pop(number, None), event)
            case heard.TurnFailed(number, _, message):
                turn = self._turns.pop(number, None)
                if turn is not None:
                    self._fail_transcript(turn, message)
                    self._answers.answer_owed()
            case heard.TurnDropped(number):
                self._drop(self._turns.pop(number, None))
            case heard.CommitEmpty(milliseconds):
                self._reject_commit(milliseconds)
            case heard.Cleared():
                self._clear()
            case heard.SettingsRejected(_, message):
                self._context.emit(SessionError("invalid_value", message))
            case heard.IdleTimeout(start_ms, end_ms):
                self._time_out(start_ms, end_ms)

    def _turn(self, number: int) -> DialogueTurn:
        return self._turns.setdefault(number, DialogueTurn(new_id("item")))

    def _is_spoken_to(self) -> bool:
        return any(turn.is_open for turn in self._turns.values())

    def _start(self, number: int, start_ms: int) -> None:
        """Open a turn. The engine's requests of an interrupted response are aborted before anything is emitted."""
        turn, settings = self._turn(number), self._context.settings
        if settings.turns.detection is TurnDetection.MANUAL:
            return
        turn.is_open = True
        if settings.interrupt_response:
            self._answers.owe_again()
            self._responses.abort_active()
            for earlier in self._turns.values():
                self._answers.drop_speculation(earlier)
        self._context.emit(UserSpeechStarted(turn.item_id, start_ms))
        if settings.interrupt_response:
            self._responses.interrupt()
        self._answers.prefill(turn)

    def _settle(self, turn: DialogueTurn, settled: str) -> None:
        """Record and emit settled text. A manual turn's is emitted after its end: its item is unknown before."""
        if len(settled) <= len(turn.settled):
            return
        turn.settled = settled
        if turn.is_open or turn.is_ended:
            self._show(turn, settled)
        if not turn.is_ended:
            self._answers.prefill(turn)

    def _show(self, turn: DialogueTurn, text: str) -> None:
        if self._context.settings.show_transcripts and text.startswith(turn.shown) and len(text) > len(turn.shown):
            self._context.emit(TranscriptDelta(turn.item_id, 0, text[len(turn.shown) :]))
            turn.shown = text

    def _show_tail(self, turn: DialogueTurn, tail: str) -> None:
        """Emit the words that may still change, if they have changed."""
        if self._context.settings.show_unsettled and (turn.is_open or turn.is_ended) and tail != turn.tail:
            turn.tail = tail
            self._context.emit(TranscriptUnsettled(turn.item_id, 0, tail))

    # -- the end of a turn --------------------------------------------------------------------------------------

    def _end(self, turn: DialogueTurn, end_ms: int) -> None:
        self._stop(turn, end_ms)
        turn.is_ended = True
        is_commit = bool(self._commits)
        turn.is_answered = self._answers.are_wanted and not is_commit
        self._answers.check_speculation(turn)
        self._commit_item(Message(turn.item_id, Role.USER, (SoundPart(),)))
        self._answers.renew_speculation(turn)
        self._context.expect_transcript(turn.item_id)
        if is_commit:
            self._commits.popleft()
            self._on_committed()

    def _stop(self, turn: DialogueTurn, end_ms: int) -> None:
        if turn.is_open:
            turn.is_open = False
            self._context.emit(UserSpeechStopped(turn.item_id, end_ms))

    def _commit_item(self, item: Message) -> None:
        context = self._context
        previous_id = context.conversation.last_id
        context.conversation.add(item)
        context.emit(BufferCommitted(item.id, previous_id))
        context.emit(ItemAdded(item, previous_id))
        context.emit(ItemDone(item, previous_id))

    def _finish(self, turn: DialogueTurn | None, event: heard.TurnTranscript) -> None:
        if turn is None:
            return
        context, text = self._context, event.text
        part = SoundPart(text, event.seconds)
        context.conversation.replace(Message(turn.item_id, Role.USER, (part,)))
        if context.settings.show_transcripts:
            self._show(turn, text)
            context.emit(TranscriptDone(turn.item_id, 0, text, event.seconds, event.language or None, event.segments))
        context.end_transcript(turn.item_id)
        if turn.is_answered:
            self._answers.answer(turn, event)

    def _fail_transcript(self, turn: DialogueTurn, message: str) -> None:
        self._answers.drop_speculation(turn)
        if turn.is_ended:
            self._context.emit(TranscriptFailed(turn.item_id, 0, message))
            self._context.end_transcript(turn.item_id, message)

    def _drop(self, turn: DialogueTurn | None) -> None:
        if turn is not None:
            self._answers.drop_speculation(turn)
            self._show_tail(turn, "")
            self._stop(turn, self._listening.position_ms)
            self._answers.answer_owed()

    def _clear(self) -> None:
        """Discard all unfinished turns, including unnamed ones."""
        self._num_clears -= self._num_clears > 0
        for number in [number for number, turn in self._turns.items() if not turn.is_ended]:
            self._drop(self._turns.pop(number))
        self._context.emit(BufferCleared())

    def _reject_commit(self, milliseconds: int) -> None:
        """Reject an empty commit. A commit overtaken by the turn's own end is already satisfied."""
        if self._commits:
            message = f"the input audio buffer has {milliseconds} ms of sound, too little for a turn"
            self._context.emit(SessionError("input_audio_buffer_commit_empty", message, tag=self._commits.popleft()))
            self._on_committed()

    def _time_out(self, start_ms: int, end_ms: int) -> None:
        if self._is_spoken_to() or self._responses.active is not None:
            return
        item = Message(new_id("item"), Role.USER, (SoundPart(""),))
        self._context.emit(IdleTimedOut(item.id, start_ms, end_ms))
        self._commit_item(item)
        self._answers.answer_silence()

    # -- failures -----------------------------------------------------------------------------------------------

    def lose(self, error: Exception | None) -> None:
        """End all turns without transcripts, and fail pending commits, because hearing is lost."""
        context = self._context
        message = "hearing was restarted" if error is None else f"hearing failed: {error}"
        if error is not None:
            context.emit(SessionError("engine_error", message, is_request=False))
        turns, self._turns = list(self._turns.values()), {}
        for turn in turns:
            self._stop(turn, self._listening.position_ms)
            self._fail_transcript(turn, message)
        for _ in range(self._num_clears):
            context.emit(BufferCleared())
        self._num_clears = 0
        commits, self._commits = self._commits, deque()
        for tag in commits:
            context.emit(SessionError("engine_error", f"the commit was lost: {message}", is_request=False, tag=tag))
        if commits:
            self._on_committed()
        self._answers.answer_owed()
