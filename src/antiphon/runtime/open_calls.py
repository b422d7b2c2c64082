"""`OpenCalls`: what an engine process was asked and has not answered: streams, and questions with one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from antiphon import errors
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.engine_process import EngineProcess
from antiphon.runtime.generate_stream import GenerateStream
from antiphon.runtime.messages import (
    MAX_SAMPLES,
    Abort,
    Accepted,
    Deltas,
    Embed,
    Embedded,
    Ended,
    Figures,
    FromEngine,
    Generate,
    Hear,
    Heard,
    Listen,
    LivePart,
    Loaded,
    LoadFailed,
    Refused,
    Speak,
    SpeechPart,
    Spoken,
    StopListening,
    Transcribe,
    Transcribed,
    TranscriptPart,
    Unloaded,
)
from antiphon.runtime.speak_stream import SpeakStream
from antiphon.runtime.transcribe_stream import Told, TranscribeStream
from antiphon.runtime.transcript import Transcript


class OpenCalls:
    """Used from one event loop, through every life of the process. `on_start_error` takes a refusal of the options."""

    def __init__(self, on_start_error: Callable[[AntiphonError], None]) -> None:
        self._on_start_error = on_start_error
        self._streams: dict[str, GenerateStream] = {}  # by the call's id
        self._samples: dict[str, GenerateStream] = {}  # by the samples' ids
        self._answers: dict[tuple[str, str], asyncio.Future[Any]] = {}  # by what was asked, and its name or id
        self._transcriptions: dict[str, TranscribeStream] = {}
        self._speeches: dict[str, SpeakStream] = {}

    # -- asking -------------------------------------------------------------------------------------------------

    def generate(self, process: EngineProcess, call: Generate) -> GenerateStream:
        if call.id in self._streams:
            raise InvalidRequestError(f"request id {call.id!r} is in use")
        if not 1 <= call.n <= MAX_SAMPLES:
            raise InvalidRequestError(f"n is {call.n}; it must be 1 to {MAX_SAMPLES}")

        def abort(stream: GenerateStream, reason: str, forget: bool) -> None:
            """What a stream calls when its reader wants no more; `forget` if nobody reads what still comes."""
            if self._streams.get(stream.id) is stream:
                if forget:
                    self._forget(stream)
                process.send(Abort(stream.id, reason))

        stream = GenerateStream(call.id, call.n, abort)
        process.send(call)
        self._streams[call.id] = stream
        for index in range(call.n):
            self._samples[f"{call.id}/{index}"] = stream
        return stream

    def _forget(self, stream: GenerateStream) -> None:
        self._streams.pop(stream.id, None)
        for index in range(stream.num_samples):
            self._samples.pop(f"{stream.id}/{index}", None)

    async def embed(self, process: EngineProcess, call: Embed) -> Embedded:
        """Cancelling the wait aborts the work."""
        if ("embed", call.id) in self._answers:
            raise InvalidRequestError(f"request id {call.id!r} is in use")
        try:
            answer: Embedded = await self.ask(process, ("embed", call.id), call)
        except asyncio.CancelledError:
            process.send(Abort(call.id))
            raise
        return answer

    def transcribe(self, process: EngineProcess, call: Transcribe | Listen) -> TranscribeStream:
        if call.id in self._transcriptions:
            raise InvalidRequestError(f"request id {call.id!r} is in use")

        def abort(stream: TranscribeStream) -> None:
            if self._transcriptions.pop(stream.id, None) is stream:
                process.send(Abort(stream.id, "disconnected"))

        stream = TranscribeStream(
            call.id,
            lambda call_id, samples: process.send(Hear(call_id, samples)),
            lambda call_id: process.send(StopListening(call_id)),
            abort,
        )
        process.send(call)
        self._transcriptions[call.id] = stream
        return stream

    def speak(self, process: EngineProcess, call: Speak) -> SpeakStream:
        if call.id in self._speeches:
            raise InvalidRequestError(f"request id {call.id!r} is in use")

        def abort(stream: SpeakStream) -> None:
            if self._speeches.pop(stream.id, None) is stream:
                process.send(Abort(stream.id, "disconnected"))

        stream = SpeakStream(call.id, process.send, abort)
        process.send(call)
        self._speeches[call.id] = stream
        return stream

    async def ask(self, process: EngineProcess, key: tuple[str, str], command: Any) -> Any:
        """The one answer to a command."""
        answer = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        process.send(command)
        try:
            return await answer
        finally:
            self._answers.pop(key, None)

    def asked(self, key: tuple[str, str]) -> asyncio.Future[Any] | None:
        """The answer to come, where the question is open."""
        return self._answers.get(key)

    # -- answers ------------------------------------------------------------------------------------------------

    def take(self, event: FromEngine) -> None:
        """What the process says."""
        match event:
            case Deltas():
                samples = self._samples
                for delta in event.items:
                    stream = samples.get(delta.id)
                    if stream is not None:
                        stream.put(delta)
            case Ended():
                stream = self._samples.pop(event.id, None)
                if stream is not None:
                    stream.put_end(event)
                    if not stream.num_unended:
                        self._streams.pop(stream.id, None)
            case Accepted():
                generated = self._streams.get(event.id)
                taken = generated or self._transcriptions.get(event.id) or self._speeches.get(event.id)
                if taken is not None:
                    taken.accept()
            case Heard():
                listened = self._transcriptions.get(event.id)
                if listened is not None:
                    listened.heard()
            case SpeechPart() | Spoken():
                self._spoke(event)
            case TranscriptPart():
                self._told(event.id, event.progress)
            case LivePart():
                self._told(event.id, event.update)
            case Transcribed():
                self._told(event.id, event.transcript)
            case Refused():
                self._refused(event)
            case Loaded():
                self._answer(("load", event.name), event)
            case LoadFailed():
                self._answer(("load", event.name), error_of(event.kind, event.message))
            case Unloaded():
                self._answer(("unload", event.name), event)
            case Embedded():
                self._answer(("embed", event.id), event)
            case Figures():
                self._answer(("figures", event.id), event)

    def _answer(self, key: tuple[str, str], value: Any) -> bool:
        answer = self._answers.get(key)
        if answer is None or answer.done():
            return answer is not None
        if isinstance(value, Exception):
            answer.set_exception(value)
        else:
            answer.set_result(value)
        return True

    def _told(self, call_id: str, told: Told) -> None:
        stream = self._transcriptions.get(call_id)
        if stream is not None:
            stream.put(told)
            if isinstance(told, Transcript):
                del self._transcriptions[call_id]

    def _spoke(self, told: SpeechPart | Spoken) -> None:
        stream = self._speeches.get(told.id)
        if stream is not None:
            stream.put(told)
            if isinstance(told, Spoken):
                del self._speeches[told.id]

    def _refused(self, event: Refused) -> None:
        error = error_of(event.kind, event.message)
        stream = self._streams.get(event.id)
        sound = self._transcriptions.pop(event.id, None) or self._speeches.pop(event.id, None)
        if sound is not None:
            sound.fail(error)
        elif not event.id:
            self._on_start_error(error)
        elif stream is not None:
            self._forget(stream)
            stream.fail(error)
        elif not self._answer(("embed", event.id), error):
            self._answer(("figures", event.id), error)

    def fail(self, message: str) -> None:
        """Everybody who waits for the process learns that there is nothing to wait for."""
        streams = list(self._streams.values())
        self._streams.clear()
        self._samples.clear()
        for stream in streams:
            stream.fail(EngineError(message))
        sounds: list[TranscribeStream | SpeakStream] = [*self._transcriptions.values(), *self._speeches.values()]
        self._transcriptions.clear()
        self._speeches.clear()
        for sound in sounds:
            sound.fail(EngineError(message))
        for key in list(self._answers):
            self._answer(key, EngineError(message))


def error_of(kind: str, message: str) -> AntiphonError:
    """The error that an engine process named."""
    cls = getattr(errors, kind, None)
    if isinstance(cls, type) and issubclass(cls, AntiphonError):
        return cls(message)
    return EngineError(f"{kind}: {message}")
