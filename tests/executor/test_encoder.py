"""Encoder windows of different lengths in one step: each is encoded as if it were alone."""

from __future__ import annotations

import torch

from antiphon.engine.plan import StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.encoder import EncoderExecutor
from antiphon.models.base.parts import Encoder
from antiphon.models.whisper import Whisper
from support.models.tiny_whisper import HIDDEN, MELS, POSITIONS, tiny_whisper

LENGTHS = (120, POSITIONS, 120, 75)


def test_windows_of_different_lengths() -> None:
    model = tiny_whisper().model
    assert isinstance(model, Whisper)
    part = model.part(Encoder)
    assert part is not None
    generator = torch.Generator().manual_seed(3)
    windows = [torch.randn(2 * length, MELS, generator=generator) for length in LENGTHS]
    requests = [
        Request(str(index), "encoder", [0] * len(window[::2]), SamplingParams(), task="encode", inputs=window)
        for index, window in enumerate(windows)
    ]
    executor = EncoderExecutor(part)
    for stage in range(part.num_stages):
        executor.submit(StepPlan("encoder", requests, stage=stage))
    for request, window, length in zip(requests, windows, LENGTHS, strict=True):
        alone = model.encoder(window[None], torch.tensor([0, length], dtype=torch.int32))
        assert request.result.shape == (length, HIDDEN)
        torch.testing.assert_close(request.result, alone, rtol=1e-5, atol=1e-5)
