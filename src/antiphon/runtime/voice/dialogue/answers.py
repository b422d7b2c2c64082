"""`Answers`: when turns are answered: before they end if possible, later during a response or another turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from antiphon.runtime.calls.hearing import TurnMarks, TurnTranscript
from antiphon.runtime.calls.turn_settings import TurnDetection
from antiphon.runtime.voice.answering.responses import Responses
from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.dialogue.prefill import Prefill
from antiphon.runtime.voice.dialogue.turn import DialogueTurn, SpeculativeAnswer
from antiphon.runtime.voice.items import Item, Message, Role, SoundPart
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.waterfall import Marks


class Answers:
    """The session's answers to turns. `is_spoken_to` returns whether the person is speaking now."""

    def __init__(self, context: SessionContext, responses: Responses, is_spoken_to: Callable[[], bool]) -> None:
        self._context = context
        self._responses = responses
        self._is_spoken_to = is_spoken_to
        self._prefill = Prefill(context)
        self._owed: set[str] = set()  # items of turns that ended during another response or turn

    @property
    def are_wanted(self) -> bool:
        """Whether turns are answered without a request."""
        settings = self._context.settings
        return settings.answer and settings.create_response and settings.turns.detection is not TurnDetection.MANUAL

    # -- ahead of the end of a turn -----------------------------------------------------------------------------

    def prefill(self, turn: DialogueTurn) -> None:
        """Prefill the prompt with the settled text of a turn that goes on, also of one that the client will commit."""
        settings = self._context.settings
        is_manual = settings.answer and settings.turns.detection is TurnDetection.MANUAL
        if (self.are_wanted or is_manual) and self._responses.active is None and turn.speculation is None:
            self._prefill.ask(turn.item_id, turn.settled)

    def speculate(self, turn: DialogueTurn, text: str) -> None:
        """Answer what may be the whole turn, without emitting any of the answer."""
        context = self._context
        self.drop_speculation(turn)
        if not (self.are_wanted and text.strip()) or self._responses.active is not None or context.transcripts:
            return
        self._prefill.drop()
        guessed = Message(turn.item_id, Role.USER, (SoundPart(text),))
        items: list[Item] = [*context.conversation.items, guessed]
        response = self._responses.prepare(items, Marks(context.clock))
        turn.speculation = SpeculativeAnswer(response, text, context.settings, context.conversation.version)

    def drop_speculation(self, turn: DialogueTurn) -> None:
        if turn.speculation is not None:
            self._responses.drop(turn.speculation.response)
            turn.speculation = None

    def check_speculation(self, turn: DialogueTurn) -> None:
        """Drop the speculative answer unless it is still valid. Call this before adding the turn's item."""
        speculation = turn.speculation
        if speculation is not None and not (turn.is_answered and self._holds(speculation)):
            self.drop_speculation(turn)

    def renew_speculation(self, turn: DialogueTurn) -> None:
        """Keep the speculative answer valid after the turn's own item was added to the conversation."""
        if turn.speculation is not None:
            turn.speculation = replace(turn.speculation, version=self._context.conversation.version)

    def _holds(self, speculation: SpeculativeAnswer) -> bool:
        context = self._context
        return (
            speculation.settings is context.settings
            and speculation.version == context.conversation.version
            and not speculation.response.has_failed
        )

    # -- after the end of a turn --------------------------------------------------------------------------------

    def answer(self, turn: DialogueTurn, event: TurnTranscript) -> None:
        """Answer an ended turn: later, if a response or another turn is in progress; not at all, if it has no text."""
        active = self._responses.active
        if active is not None and turn.item_id in active.input_ids:
            self.drop_speculation(turn)
            return  # the response has been waiting for this transcript
        must_wait = active is not None or (self._is_spoken_to() and self._context.settings.interrupt_response)
        speculation = turn.speculation
        if (
            not must_wait
            and speculation is not None
            and speculation.text.strip() == event.text.strip()
            and self._holds(speculation)
        ):
            note_turn(speculation.response.marks, event.marks)
            speculation.response.input_seconds = event.seconds
            self._responses.adopt(speculation.response)
            return
        self.drop_speculation(turn)
        if not event.text.strip():
            self.answer_owed()
            return
        if must_wait:
            self._owed.add(turn.item_id)
            return
        marks = Marks(self._context.clock)
        note_turn(marks, event.marks)
        self._start(marks, event.seconds)

    def answer_silence(self) -> None:
        """Start a response after the idle timeout."""
        if self.are_wanted:
            self._start(Marks.of_request(self._context.clock))

    def answer_owed(self) -> None:
        """Answer turns that had to wait for a response or another turn, unless the person is speaking."""
        answered, known = self._responses.answered_ids, self._context.conversation
        self._owed = {item for item in self._owed if item not in answered and known.get(item) is not None}
        if not self.are_wanted:
            self._owed.clear()
        if self._owed and not self._is_spoken_to() and self._responses.active is None:
            self._start(Marks.of_request(self._context.clock))

    def owe_again(self) -> None:
        """Plan to repeat the active answer if nothing of it was heard: the speech that interrupts it may be noise."""
        active = self._responses.active
        if active is not None and active.is_unheard:
            self._owed |= active.input_ids
            self._responses.answered_ids = frozenset()

    def _start(self, marks: Marks, input_seconds: float = 0.0) -> None:
        self._prefill.drop()
        self._responses.start(ResponseRequest(), marks).input_seconds = input_seconds


def note_turn(marks: Marks, turn: TurnMarks) -> None:
    marks.set("speech_ended", turn.speech_ended)
    marks.set("turn_decided", turn.decided)
    marks.set("transcription_started", turn.transcription_started)
    marks.set("transcript_final", turn.transcription_ended)
