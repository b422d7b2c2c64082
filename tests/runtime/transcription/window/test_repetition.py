"""Loops in a recogniser's tokens: found, tried again, and cut where no attempt is without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from antiphon.engine.request import FinishReason, Request
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.window.decoding import Attempt, Recogniser, WindowJob
from antiphon.runtime.transcription.window.repetition import Loop, find_loops
from antiphon.text.tokenization.whisper_tokens import WhisperTokens
from support.models.tiny_whisper import HIDDEN, MULTILINGUAL, tiny_whisper
from support.sound.sounds import noise


def test_loops_are_found_with_their_shortest_period() -> None:
    phrase = [5, 6, 7]
    assert find_loops([1, 2, *phrase * 4, 9]) == [Loop(2, 3, 14)]
    assert find_loops([*phrase * 4, 5]) == [Loop(0, 3, 13)]  # the last repetition is incomplete
    assert find_loops([4] * 7 + [1, *phrase * 3]) == [Loop(0, 1, 7), Loop(8, 3, 17)]
    long = list(range(40))
    assert find_loops(long * 3) == [Loop(0, 40, 120)]


def test_what_people_say_twice_is_no_loop() -> None:
    for said in ([], [1], [5, 6, 7] * 2, [8, 9] * 3, [4] * 6, list(range(20)) * 2, [1, 2, 3, 4, 5, 6]):
        assert find_loops(said) == []


def attempt(**details: Any) -> Attempt:
    said = Attempt(tuple(range(90)), "la la", 0.0, -0.2, 2.0, 0.0, "en", 1.0, is_complete=True, seconds=28.0)
    return replace(said, **details)


def test_a_loop_is_doubted_however_short_the_window_is() -> None:
    options = TranscriptionOptions()
    looping = attempt(repeated=frozenset(range(60, 90)), unrepeated_logprob=-0.8)
    assert looping.is_doubtful(options)  # the mean over all tokens and the compression ratio are those of good text
    assert not attempt(unrepeated_logprob=-0.8).is_doubtful(options)
    said = replace(looping, unrepeated_logprob=-0.2)
    assert not said.is_doubtful(options)  # a speaker repeats a sentence
    assert replace(said, is_complete=False).is_doubtful(options)
    assert replace(said, seconds=10.0).is_doubtful(options)


class Decoder:
    """Stands for the decoder of a window: each attempt has the tokens and log-probabilities that it is given."""

    def __init__(self, given: Sequence[int] = (), **options: Any) -> None:
        recogniser = Recogniser.of(tiny_whisper(MULTILINGUAL))
        self.tokens: WhisperTokens = recogniser.tokens
        self.job = WindowJob(recogniser, noise(9.0), TranscriptionOptions(**options), "en", (), given)
        (encoding,) = self.job.start()
        encoding.result = torch.zeros(len(encoding.prompt), HIDDEN)
        self.requests: list[Request] = self.job.advance(encoding)

    def stamp(self, seconds: float) -> int:
        return self.tokens.first_timestamp + round(seconds * 50)

    def decode(self, *outputs: tuple[Sequence[int], float]) -> None:
        """End the requests of an attempt; the last output is that of all further ones."""
        requests = self.requests
        for index, request in enumerate(requests):
            tokens, logprob = outputs[min(index, len(outputs) - 1)]
            request.tokens = [*request.prompt, *tokens, self.tokens.end]
            request.drawn_logprobs = [logprob] * (len(tokens) + 1)
            request.finish_reason = FinishReason.STOP
            self.requests = self.job.advance(request)


@pytest.mark.parametrize("translate", [False, True])
def test_a_loop_is_tried_again_at_the_next_temperature(translate: bool) -> None:
    decoder = Decoder(translate=translate)
    start, end = decoder.stamp(0), decoder.stamp(9)
    loop, good = [start, 5, 6, *[7, 8, 9] * 5, end], [start, 5, 6, 7, 8, 9, 10, 11, end]
    decoder.decode((loop, -0.6))
    assert not decoder.job.is_done
    assert {request.params.temperature for request in decoder.requests} == {0.2}
    # Of several samples the likeliest has a loop, since a loop makes itself more probable.
    decoder.decode((loop, -0.5), (good, -0.7))
    assert decoder.job.is_done and decoder.job.best.tokens == tuple(good)


@pytest.mark.parametrize("temperatures", [(0.0,), (0.0, 0.2, 0.4)])
def test_a_loop_that_stays_in_every_attempt_is_cut(temperatures: tuple[float, ...]) -> None:
    decoder = Decoder(temperatures=temperatures)
    start, middle, end = (decoder.stamp(seconds) for seconds in (0, 4, 9))
    loop = [start, 5, 6, 7, 8, middle, middle, *[6, 7, 8] * 4, 11, end]
    for _ in temperatures:
        decoder.decode((loop, -0.6))
    best = decoder.job.best
    assert decoder.job.is_done and len(decoder.job.attempts) == len(temperatures)
    assert best.tokens == (start, 5, 6, 7, 8, middle, middle, 11, end) and len(best.logprobs) == len(best.tokens)
    assert best.text == decoder.job.recogniser.tokenizer.decode([5, 6, 7, 8, 11])


def test_tokens_that_are_settled_are_never_cut() -> None:
    decoder = Decoder(given=[7, 8, 9] * 3, temperatures=(0.0,), timestamps=False)
    decoder.decode(([7, 8, 9] * 3 + [10], -0.6))
    assert decoder.job.best.tokens == (*[7, 8, 9] * 3, 10)


def test_a_sentence_that_is_said_again_and_again_is_kept() -> None:
    decoder = Decoder()
    said = [decoder.stamp(0), *[5, 6, 7, 8] * 5, decoder.stamp(9)]
    decoder.decode((said, -0.2))
    assert decoder.job.is_done and decoder.job.best.tokens == tuple(said)
