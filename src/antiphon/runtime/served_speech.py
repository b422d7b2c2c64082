"""Syntheses behind a socket: texts in, sound out, no faster than it is read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event

import msgspec

from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.runtime.messages import Accepted, AppendText, EndText, Refused, Speak, SpeechPart, Spoken, TakePart
from antiphon.runtime.speech import SpeechChunk
from antiphon.runtime.speech_text import Speaker
from antiphon.runtime.synthesis import SpeechPort, Synthesis
from antiphon.runtime.text_feed import TextFeed

#: Syntheses that are being begun at once; one that has begun has a thread of its own.
THREADS = 4


@dataclass(eq=False)
class _Speech:
    """A synthesis being begun or running. Who begins it looks at `is_aborted` last; who aborts it sets it first."""

    feed: TextFeed | None
    synthesis: Synthesis | None = None
    is_aborted: bool = False
    #: Set once `synthesis` is; its thread waits for that.
    has_begun: Event = field(default_factory=Event)

    def abort(self) -> None:
        self.is_aborted = True
        if self.synthesis is not None:
            self.synthesis.close()


class ServedSpeech:
    """Takes commands without waiting; `send` may be called from any thread."""

    def __init__(
        self,
        speaker: Callable[[str | None], tuple[Speaker, SpeechPort]],
        send: Callable[[msgspec.Struct], None],
        kind_and_message: Callable[[BaseException], tuple[str, str]],
    ) -> None:
        self._speaker = speaker
        self._send = send
        self._kind_and_message = kind_and_message
        self._threads = ThreadPoolExecutor(THREADS, "antiphon-speak")
        self._speeches: dict[str, _Speech] = {}

    def take(self, command: Speak | AppendText | EndText | TakePart) -> None:
        if isinstance(command, Speak):
            if command.id in self._speeches:
                self._send(Refused(command.id, "InvalidRequestError", f"request id {command.id!r} is in use"))
                return
            speech = self._speeches[command.id] = _Speech(TextFeed() if command.is_open else None)
            if speech.feed is not None and command.text:
                speech.feed.push(command.text)
            self._threads.submit(self._begin, command, speech)
            return
        found = self._speeches.get(command.id)
        if found is None:
            return  # it has ended, and its end was told
        with suppress(InvalidRequestError):  # text after the end of the text
            match command:
                case AppendText() if found.feed is not None:
                    found.feed.push(command.text)
                case EndText() if found.feed is not None:
                    found.feed.finish()
                case TakePart() if found.synthesis is not None:
                    found.synthesis.release()

    def abort(self, call_id: str) -> bool:
        """End a synthesis; False if there is none of that id."""
        speech = self._speeches.get(call_id)
        if speech is not None:
            speech.abort()
        return speech is not None

    def _begin(self, command: Speak, speech: _Speech) -> None:
        try:
            speaker, port = self._speaker(command.model)
            speaker.reader(command.options)  # loads what reading needs, and refuses what it cannot
            text = command.text if speech.feed is None else speech.feed
            tell = partial(self._told, command.id, speech)
            speech.synthesis = Synthesis(speaker, port, text, command.options, tell)
            self._send(Accepted(command.id))
            speech.has_begun.set()
            if speech.is_aborted:
                speech.synthesis.close()
        except BaseException as error:
            self._end(command.id, error)

    def _told(self, call_id: str, speech: _Speech, told: SpeechChunk | AntiphonError | None) -> None:
        """In the synthesis' own thread."""
        speech.has_begun.wait()
        if isinstance(told, SpeechChunk):
            samples = told.samples.tobytes()
            self._send(SpeechPart(call_id, samples, told.rate, told.start, told.text, list(told.words)))
        elif told is not None:
            self._end(call_id, told)
        else:
            self._speeches.pop(call_id, None)
            assert speech.synthesis is not None
            self._send(Spoken(call_id, speech.synthesis.stats))

    def _end(self, call_id: str, error: BaseException) -> None:
        self._speeches.pop(call_id, None)
        self._send(Refused(call_id, *self._kind_and_message(error)))
