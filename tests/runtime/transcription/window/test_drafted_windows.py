"""Windows that are transcribed again: an earlier transcript is the draft of the next and changes no token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from antiphon import Engine
from antiphon.engine.request import Request
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.window.decoding import Recogniser, WindowJob
from antiphon.runtime.transcription.window.job_runner import JobRunner
from support.models.tiny_whisper import HIDDEN, tiny_whisper
from support.sound.sounds import noise


def decodings(expected: Sequence[int], given: Sequence[int] = (), **options: Any) -> list[Request]:
    recogniser = Recogniser.of(tiny_whisper())
    job = WindowJob(recogniser, noise(1.0), TranscriptionOptions(**options), "en", (), given, expected=expected)
    (encoding,) = job.start()
    encoding.result = torch.zeros(len(encoding.prompt), HIDDEN)
    return job.advance(encoding)


@pytest.mark.parametrize(
    ("expected", "given", "guess"),
    [
        ((), (), []),
        ((70, 71, 72), (), [70, 71, 72]),
        ((70, 71, 72), (70, 71), [72]),
        ((70, 71), (70, 71), []),
        ((70, 71), (70, 71, 72), []),
        ((70, 71, 72), (70, 73), []),
    ],
)
def test_the_draft_is_what_follows_the_tokens_that_are_given(
    expected: tuple[int, ...], given: tuple[int, ...], guess: list[int]
) -> None:
    (request,) = decodings(expected, given)
    assert (list(request.guess), request.speculates) == (guess, bool(guess))


def test_several_attempts_at_once_have_no_draft() -> None:
    for options in ({"beams": 3}, {"temperatures": (0.4,), "best_of": 3}):
        requests = decodings((70, 71), **options)
        assert len(requests) == 3 and not any(request.speculates for request in requests)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_transcript_is_the_same_in_every_number(share: float) -> None:
    samples, options = noise(3.0), TranscriptionOptions(temperatures=(0.0,), timestamps=False)
    with Engine(tiny_whisper(), kv_bytes=16 << 20, speculate="ngram") as engine:
        transcriber = engine.transcriber(None)
        assert transcriber.speculates

        def transcribe(expected: Sequence[int]) -> WindowJob:
            runner = JobRunner(transcriber.port)
            runner.start(WindowJob(transcriber.recogniser, samples, options, "en", expected=expected))
            return runner.wait()

        plain = transcribe(())
        tokens = plain.best.tokens
        assert not sum(step.drafted_tokens for step in engine.step_records())
        drafted = transcribe([*tokens[: int(len(tokens) * share)], 70, 71])
        assert drafted.attempts == plain.attempts and len(tokens) > 8
        # The first draft is computed before its cost is known.
        assert sum(step.drafted_tokens for step in engine.step_records()) > 0


def test_an_engine_that_does_not_speculate_drafts_no_transcript() -> None:
    with Engine(tiny_whisper(), kv_bytes=16 << 20) as engine:
        assert not engine.transcriber(None).speculates
