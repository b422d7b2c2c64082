"""`Making`: an answer while it is written, and spoken as it is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from antiphon.audio.speech.clauses import ClauseSplitter
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.voice.answering.speech import SpokenMessage
from antiphon.runtime.voice.dialogue.tasks import Tasks
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.services import Answer, AnswerPiece, AnswerUsage, VoiceServices
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.runtime.voice.waterfall import Marks
from antiphon.text.tool_calls.pieces import CallArguments, Content
from antiphon.text.tool_calls.unspoken import UnspokenCalls


@dataclass(frozen=True)
class MessageEnd:
    """The whole message has been written and spoken."""


@dataclass(frozen=True)
class Made:
    """The answer is complete."""

    usage: AnswerUsage


@dataclass(frozen=True)
class Failed:
    error: Exception
    usage: AnswerUsage


Piece = AnswerPiece | SpeechChunk | MessageEnd | Made | Failed


class Making:
    """An answer in pieces, passed to `receive`: a message with its sound, then calls, at last `Made` or `Failed`.

    Pieces are held until `release`. After `abort` there are no more pieces.
    """

    def __init__(
        self,
        tasks: Tasks,
        services: VoiceServices,
        settings: VoiceSettings,
        items: Callable[[], Awaitable[Sequence[Item]]],
        marks: Marks,
    ) -> None:
        self._tasks = tasks
        self._services = services
        self._settings = settings
        self._items = items
        self._marks = marks
        self._answer: Answer | None = None
        self._speech: SpokenMessage | None = None
        self._in_message = False
        self._unspoken = UnspokenCalls(frozenset(tool.name for tool in settings.tools))
        self._clauses: ClauseSplitter | None = ClauseSplitter(hurries=True)
        self._held: list[Piece] = []
        self._receive: Callable[[Piece], None] | None = None
        self._is_over = False
        self._task = tasks.start(self._run())

    def release(self, receive: Callable[[Piece], None]) -> None:
        """Pass on the pieces that are held, and from here on every piece as it is made."""
        self._receive = receive
        held, self._held = self._held, []
        for piece in held:
            receive(piece)

    def abort(self) -> None:
        """End now. The engine's calls are closed before this returns. May be called twice."""
        self._is_over = True
        self._close_calls()
        self._task.cancel()

    @property
    def has_failed(self) -> bool:
        """Whether an answer whose pieces are held has failed."""
        return any(isinstance(piece, Failed) for piece in self._held)

    @property
    def usage(self) -> AnswerUsage:
        return self._answer.usage if self._answer is not None else AnswerUsage()

    def _close_calls(self) -> None:
        if self._answer is not None:
            self._answer.close()
        if self._speech is not None:
            self._speech.abort()

    def _give(self, piece: Piece) -> None:
        if self._is_over:
            return
        self._is_over = isinstance(piece, Made | Failed)
        if self._receive is None:
            self._held.append(piece)
        else:
            self._receive(piece)

    async def _run(self) -> None:
        try:
            await self._make()
        except Exception as error:
            self._fail(error)
        else:
            self._give(Made(self.usage))
        finally:
            self._close_calls()

    def _fail(self, error: Exception) -> None:
        if not self._is_over:
            self._close_calls()
            self._give(Failed(error, self.usage))
            self._task.cancel()

    async def _make(self) -> None:
        items = await self._items()
        self._marks.note("answer_started")
        if self._is_spoken:
            self._open_speech()
        answer = self._answer = await self._services.answer(items, self._settings)
        while True:
            try:
                piece = await answer.__anext__()
            except StopAsyncIteration:
                break
            self._marks.note("first_token")
            if isinstance(piece, Content):
                self._write(self._unspoken.feed(piece.text) if self._is_spoken else piece.text)
            else:
                if not isinstance(piece, CallArguments):
                    await self._end_message()
                self._give(piece)
        await self._end_message()

    def _open_speech(self) -> None:
        self._speech = SpokenMessage(self._tasks, self._services, self._settings, self._take_sound, self._fail)

    def _take_sound(self, chunk: SpeechChunk) -> None:
        self._marks.note("sound_made")
        self._give(chunk)

    @property
    def _is_spoken(self) -> bool:
        return self._settings.modality is Modality.AUDIO

    def _write(self, text: str) -> None:
        if not text or (not self._in_message and not text.strip()):
            return  # blanks before a message, or between calls, are no message
        self._in_message = True
        if self._clauses is not None and next(self._clauses.push(text), None) is not None:
            self._marks.note("first_clause")
            self._clauses = None
        self._give(Content(text))
        if self._is_spoken:
            if self._speech is None:
                self._open_speech()
            assert self._speech is not None
            self._speech.append(text)

    async def _end_message(self) -> None:
        """End the open message, if any. Waits for the last of its sound, so that later pieces come after it."""
        self._write(self._unspoken.finish())
        if not self._in_message:
            return
        self._in_message = False
        self._marks.note("first_clause")
        if self._speech is not None:
            await self._speech.finish()
            self._speech = None
        self._give(MessageEnd())
