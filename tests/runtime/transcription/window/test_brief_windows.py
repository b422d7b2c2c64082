"""Windows whose encoder time follows the length of the sound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from antiphon.audio.mel import window_features
from antiphon.engine.request import Request
from antiphon.errors import AudioError
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.window import decoding as window_decoding
from antiphon.runtime.transcription.window.decoding import Recogniser, WindowJob
from support.models.tiny_whisper import HIDDEN, MELS, POSITIONS, tiny_whisper
from support.sound.sounds import noise


@pytest.mark.parametrize(("seconds", "states"), [(0.1, 200), (0.9, 200), (1.1, 250), (6.99, 500), (9.9, 500)])
def test_the_encoder_sees_the_sound_and_some_silence(
    monkeypatch: pytest.MonkeyPatch, seconds: float, states: int
) -> None:
    """With windows of at least 4 s and 3 s of silence, for a model whose longest has 10 s."""
    monkeypatch.setattr(window_decoding, "BRIEF_SECONDS", 4.0)
    monkeypatch.setattr(window_decoding, "BRIEF_SILENCE", 3.0)
    recogniser = Recogniser.of(tiny_whisper())
    samples = noise(seconds)
    job = WindowJob(recogniser, samples, TranscriptionOptions(), "en", is_brief=True)
    (encoding,) = job.start()
    assert len(encoding.prompt) == states == job.num_states
    np.testing.assert_array_equal(encoding.inputs.numpy(), window_features(samples, MELS, states / 50))
    (decoding,) = job.advance(encoding)
    assert decoding.cross_tokens == states
    whole = WindowJob(recogniser, samples, TranscriptionOptions(), "en")
    assert len(whole.start()[0].prompt) == POSITIONS


@pytest.mark.parametrize("num_temperatures", [1, 2])
def test_a_doubtful_transcript_is_made_again_from_the_whole_window(
    monkeypatch: pytest.MonkeyPatch, num_temperatures: int
) -> None:
    """Where another attempt is allowed."""
    recogniser = Recogniser.of(tiny_whisper())
    options = TranscriptionOptions(temperatures=(0.0, 0.4)[:num_temperatures])
    monkeypatch.setattr(window_decoding, "BRIEF_SECONDS", 4.0)
    job = WindowJob(recogniser, noise(1.0), options, "en", is_brief=True)
    first = attempt(job, job.start(), logprob=-9.0)
    assert job.is_done == (num_temperatures == 1)
    if num_temperatures == 2:
        assert first[0].task == "encode" and len(first[0].prompt) == POSITIONS
        assert not attempt(job, first, logprob=-0.1) and job.is_done
        assert [one.temperature for one in job.attempts] == [0.0]


def attempt(job: WindowJob, requests: list[Request], logprob: float) -> list[Request]:
    """The requests that follow a decoding which found two tokens of that probability."""
    [encoding] = requests
    encoding.result = torch.zeros(len(encoding.prompt), HIDDEN)
    [decoding] = job.advance(encoding)
    assert decoding.cross_tokens == len(encoding.prompt)
    decoding.tokens += [70, job.recogniser.tokens.end]
    decoding.drawn_logprobs = [logprob] * 2
    return job.advance(decoding)


def test_sound_longer_than_the_window_is_rejected() -> None:
    job = WindowJob(Recogniser.of(tiny_whisper()), noise(10.1), TranscriptionOptions(), "en", is_brief=True)
    with pytest.raises(AudioError, match=r"10\.10 s of sound do not fit a window of 10 s"):
        job.start()
