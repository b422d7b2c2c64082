"""Hearing call without models: the test acts as recogniser and detectors, sees every request and ends it by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import Empty
from typing import Any, TypeVar

import numpy as np
import torch

from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.errors import AntiphonError
from antiphon.models.base.companions import END_OF_TURN, VOICE_ACTIVITY
from antiphon.models.base.model import Model
from antiphon.models.silero_vad import VoiceInput
from antiphon.runtime.calls.hearing import SettingsRejected
from antiphon.runtime.calls.port import EnginePort
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.thread_reader import ThreadInbox
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnSettings
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.transcription.transcriber import Transcriber
from antiphon.runtime.voice.hearing import HearingCall
from support.models.random_detector import random_detector
from support.waiting import PATIENCE_SECONDS, wait_until

FRAME = 512
RATE = 16_000
Kind = TypeVar("Kind")


def sound(level: float, milliseconds: float) -> np.ndarray:
    """Return whole frames whose samples all equal `level`, the speech probability that the fake detector returns."""
    return np.full(round(milliseconds * RATE / 1000 / FRAME) * FRAME, level, np.float32)


class FakeDetectors:
    """Detectors without models: speech probability is a frame's loudest sample; end-of-turn answers are `answers`."""

    def __init__(self) -> None:
        self.answers: list[float | AntiphonError] = []
        self.asked: list[np.ndarray] = []
        self._voice = random_detector().model

    def model(self, name: str) -> Model:
        assert name in (VOICE_ACTIVITY, END_OF_TURN)
        return self._voice

    def run(self, name: str, inputs: Any, priority: Priority = Priority.NORMAL) -> Any:
        assert priority is Priority.CRITICAL
        if name == VOICE_ACTIVITY:
            assert isinstance(inputs, VoiceInput)
            return inputs.samples[: len(inputs.samples) // FRAME * FRAME].reshape(-1, FRAME).max(axis=1)
        self.asked.append(inputs)
        answer = self.answers.pop(0)
        if isinstance(answer, AntiphonError):
            raise answer
        return answer


class FakeLoop:
    """Engine loop that holds requests until the test ends them."""

    def __init__(self) -> None:
        self.running: dict[str, Request] = {}
        self.num_jobs = 0
        self.num_aborted = 0
        self.failure: AntiphonError | None = None

    def add(self, requests: list[Request], on_done: Callable[[Future[None]], None] | None = None) -> Future[None]:
        done: Future[None] = Future()
        if self.failure is not None:
            done.set_exception(self.failure)
            return done
        self.num_jobs += requests[0].task == "encode"
        self.running.update({request.id: request for request in requests})
        done.set_result(None)
        return done

    def abort_all(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        for request_id in request_ids:
            request = self.running.pop(request_id, None)
            if request is not None:
                self.num_aborted += 1
                self.end(request, reason)

    @staticmethod
    def end(request: Request, reason: FinishReason = FinishReason.STOP) -> None:
        request.finish_reason = reason
        assert request.on_end is not None
        request.on_end(request)


class Scene:
    """Started hearing call. Its clock stands still until the test changes `now`."""

    def __init__(self, loaded: LoadedModel, options: HearingOptions) -> None:
        self.now = 100.0
        self.loop = FakeLoop()
        self.detectors = FakeDetectors()
        self.transcriber = Transcriber(
            loaded, EnginePort(self.loop, lambda: self.now, lambda record: None, self.detectors)
        )
        self.inbox = ThreadInbox()
        sink = ThreadSink()
        self.call = HearingCall("hearing", sink, lambda: self.now)
        sink.open(["hearing"], self.inbox)
        self.call.prepare(self.transcriber, options)
        self.call.start()

    def hear(self, *pieces: tuple[float, float]) -> None:
        """Push sound, given as pairs of speech probability and milliseconds."""
        for level, milliseconds in pieces:
            self.call.push(sound(level, milliseconds))

    def next(self, kind: type[Kind]) -> Kind:
        """Return the next event; fail if it is of another type."""
        try:
            event = self.inbox.get(timeout=PATIENCE_SECONDS)
        except Empty:
            raise AssertionError(f"no {kind.__name__} came; running: {self.loop.running}") from None
        assert isinstance(event, kind), event
        return event

    def sync(self) -> None:
        """Wait until the call has carried out all earlier commands and has started any job that it wants.

        The call answers settings that change nothing with a rejection. After the second one, the round of the first is
        over.
        """
        for _ in range(2):
            self.call.configure(TurnSettings(), TranscriptionOptions(translate=True))
            self.next(SettingsRejected)

    def request(self, task: str = "encode") -> Request:
        """Wait until a request with this task runs, and return it; no other request may run."""
        running = lambda: list(self.loop.running.values())  # noqa: E731
        wait_until(lambda: [r for r in running() if r.task == task], f"a request to {task}", seen=running)
        (request,) = running()
        return request

    def recognise(self, text: str) -> Request:
        """Let the running job recognise this text; return its decoding request."""
        recogniser = self.transcriber.recogniser
        encoding = self.request()
        del self.loop.running[encoding.id]
        encoding.result = torch.zeros(recogniser.model.cross_tokens, recogniser.model.config.hidden_size)
        self.loop.end(encoding)
        decoding = self.request("transcribe")
        tokens = recogniser.tokenizer.encode(text, parse_special=False)
        prompt = list(decoding.prompt)
        given = max(count for count in range(len(tokens) + 1) if prompt[len(prompt) - count :] == tokens[:count])
        decoding.tokens += [*tokens[given:], recogniser.tokens.end]
        decoding.drawn_logprobs = [-0.1] * len(decoding.output)
        del self.loop.running[decoding.id]
        self.loop.end(decoding)
        return decoding


@contextlib.contextmanager
def hearing_scene(loaded: LoadedModel, options: HearingOptions | None = None) -> Iterator[Scene]:
    """Run a hearing call until the block ends, then cancel it; no request may be left running."""
    scene = Scene(loaded, options or HearingOptions())
    try:
        yield scene
    finally:
        scene.call.cancel()
        wait_until(lambda: scene.inbox.final is not None, "the call's end")
        assert not scene.loop.running
