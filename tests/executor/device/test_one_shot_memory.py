"""One-shot steps on a device that runs out of memory: they are halved, and every request ends with its own result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from antiphon.engine.core import EngineCore
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.embedding import DeviceEmbeddingExecutor
from antiphon.executor.device.encoder import STAGES_PER_STEP, DeviceEncoderExecutor, num_steps
from antiphon.executor.device.one_shot import OneShotExecutor
from antiphon.models.base.parts import Encoder, SoundFeatures, TextEmbedding
from support.engine.running import run
from support.kernels.cards import imitated_card

NAME, STATES = "part", 4


def refuse(most: int, count: int) -> None:
    if count > most:
        raise torch.OutOfMemoryError(f"{count} at once")


def encoder(most: int) -> Encoder:
    """Adds 1 in every stage; the second step has room for `most` inputs."""

    def stage(number: int, x: Tensor, seq_start: Tensor) -> Tensor:
        assert seq_start.tolist() == [*range(0, STATES * len(seq_start), STATES)]
        if number == 0:
            return x.expand(STATES, len(x)).T.reshape(-1, 1) + 1
        if number >= STAGES_PER_STEP:
            refuse(most, len(x) // STATES)
        return x + 1

    features = SoundFeatures(8, lambda samples: samples.sum(1))
    return Encoder("Toy", STAGES_PER_STEP + 3, STATES, stage, features=features)


def embedding(most: int) -> TextEmbedding:
    def embed(ids: Tensor, _: Tensor, starts: Tensor) -> Tensor:
        refuse(most, len(starts) - 1)
        bounds = starts.tolist()
        return torch.stack([ids[a:b].float().sum() for a, b in pairwise(bounds)])[:, None]

    return TextEmbedding("Toy", 64, embed)


@contextmanager
def core_of(executor: OneShotExecutor, stages: int) -> Iterator[EngineCore]:
    card = imitated_card()
    scheduler = OneShotScheduler(
        NAME, make_policy("fcfs"), max_model_tokens=64, num_stages=stages, max_step_tokens=8 * STATES
    )
    core = EngineCore()
    core.add_model(
        ModelSlot(NAME, scheduler, executor, depth=2, device=card.name, computes_in_submit=False,
                  translate=card.translate)
    )  # fmt: skip
    yield core
    executor.close()


@pytest.fixture(params=[3, 1, 0])
def most(request: pytest.FixtureRequest) -> int:
    """Requests that the device has memory for."""
    return int(request.param)


def test_an_encoder(most: int) -> None:
    part = encoder(most)
    with core_of(DeviceEncoderExecutor(part, imitated_card()), num_steps(part)) as core:
        sounds = [torch.full((4,), float(number)) for number in range(11)]
        made = [
            Request(str(number), NAME, [0] * STATES, SamplingParams(), inputs=sound)
            for number, sound in enumerate(sounds)
        ]
        run(core, made)
        for number, request in enumerate(made):
            check_end(request, most)
            if most:
                assert request.result.tolist() == [[4.0 * number + part.num_stages]] * STATES


def test_an_embedding(most: int) -> None:
    with core_of(DeviceEmbeddingExecutor(embedding(most), imitated_card()), 1) as core:
        made = [Request(str(number), NAME, [number] * STATES, SamplingParams()) for number in range(11)]
        run(core, made)
        for number, request in enumerate(made):
            check_end(request, most)
            if most:
                assert request.result.tolist() == [STATES * number]


def check_end(request: Request, most: int) -> None:
    """One request alone that does not fit fails, and says why."""
    assert request.finish_reason is (FinishReason.STOP if most else FinishReason.FAILED)
    assert most or "card ran out of memory" in str(request.error)
