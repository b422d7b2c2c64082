"""`ClientSound`: transcribes sound in the client's messages, which can be answered only then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.events import TranscriptDone, TranscriptFailed
from antiphon.runtime.voice.items import Item, Message, SoundPart


class ClientSound:
    def __init__(self, context: SessionContext) -> None:
        self._context = context

    def transcribe(self, message: Message) -> None:
        """Transcribe the sound, if any, of a message added to the conversation. Responses wait for it."""
        if any(_is_unknown(part) for part in message.parts):
            self._context.expect_transcript(message.id)
            self._context.tasks.start(self._run(message))

    async def _run(self, message: Message) -> None:
        context = self._context
        try:
            known = await transcribed(context, message)
        except Exception as error:
            index = next(index for index, part in enumerate(message.parts) if _is_unknown(part))
            context.emit(TranscriptFailed(message.id, index, str(error)))
            context.end_transcript(message.id, str(error))
            return
        context.conversation.replace(known)
        for index, (before, part) in enumerate(zip(message.parts, known.parts, strict=True)):
            if _is_unknown(before) and isinstance(part, SoundPart) and context.settings.show_transcripts:
                context.emit(TranscriptDone(message.id, index, part.transcript or "", part.seconds))
        context.end_transcript(message.id)


def _is_unknown(part: object) -> bool:
    return isinstance(part, SoundPart) and part.transcript is None and part.samples is not None


async def transcribed(context: SessionContext, message: Message) -> Message:
    settings = context.settings
    parts = list(message.parts)
    for index, part in enumerate(parts):
        if isinstance(part, SoundPart) and part.transcript is None and part.samples is not None:
            heard = await context.services.transcribe(
                part.samples, settings.transcription, settings.transcription_model
            )
            parts[index] = replace(part, transcript=heard.text, seconds=heard.seconds)
    return replace(message, parts=tuple(parts))


async def transcribed_items(context: SessionContext, items: Sequence[Item]) -> Sequence[Item]:
    return [await transcribed(context, item) if isinstance(item, Message) else item for item in items]
