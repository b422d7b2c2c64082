"""Speech models with random weights, small enough for every test."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest.mock import patch

import torch

from antiphon import ops
from antiphon.engine.core import EngineCore, ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.synthesis import SynthesisExecutor
from antiphon.models import hibari
from antiphon.models.base.parts import SynthesisStages
from antiphon.models.base.speech_state import Speech, Utterance
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.models.kokoro import decoder
from antiphon.models.registry import build_model
from antiphon.ops import Device
from antiphon.ops.registry import default_backend
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from support.models.random_voice import VOICE_SHAPES, RandomVoice, random_utterance

TINY_KOKORO: dict[str, Any] = VOICE_SHAPES["kokoro-82m"] | {
    "hidden_dim": 16,
    "style_dim": 6,
    "n_layer": 1,
    "max_dur": 20,
    "plbert": {
        "hidden_size": 32,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "max_position_embeddings": 64,
    },
    "istftnet": VOICE_SHAPES["kokoro-82m"]["istftnet"]
    | {
        "upsample_rates": [4, 2],
        "upsample_kernel_sizes": [8, 4],
        "upsample_initial_channel": 16,
        "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1, 3]] * 2,
    },
}
TINY_VOICES = {"hibari": VOICE_SHAPES["hibari-6m"], "kokoro": TINY_KOKORO}
TINY_HIBARI: dict[str, Any] = {
    "DECODER_TEXT": (32, 1),
    "PROSODY_TEXT": (48, 1),
    "DECODER_SIZE": 64,
    "DECODER_BLOCKS": 2,
    "PROSODY_DILATIONS": (1, 2),
}
#: Number of phonemes and speed of each utterance.
SIZES = ((9, 1.0), (5, 0.8), (7, 1.3))


def build_voice(name: str) -> Synthesizer:
    """Build a tiny model with unprepared weights; fixed sizes of its architecture are patched to smaller values."""
    with patch.multiple(decoder, DECODER_CHANNELS=24), patch.multiple(hibari, **TINY_HIBARI):
        model = build_model(RandomVoice(TINY_VOICES[name]))
    assert isinstance(model, Synthesizer)
    return model


@cache
def tiny_voice(name: str) -> Synthesizer:
    """Return a shared fp32 model on the CPU, prepared for the default backend."""
    model = build_voice(name)
    backend = default_backend("cpu").name
    if backend != "reference":  # the reference rounds weights in preparation; unprepared, it decodes them exactly
        with ops.use_backend(backend):
            prepare(model, LoadReport(), WeightOptions(precision="fp32"), device=Device.parse("cpu"))
    return model


def speech_on_cpu(name: str, spoken: list[Utterance]) -> list[Speech]:
    """Synthesize with the CPU's executor and default backend."""
    model = tiny_voice(name)
    executor = SynthesisExecutor(stages_of(model))
    try:
        with ops.use_backend(default_backend("cpu").name):
            return speak(speaking_core(model, executor), spoken)
    finally:
        executor.close()


def stages_of(model: Synthesizer) -> SynthesisStages:
    stages = model.part(SynthesisStages)
    assert stages is not None
    return stages


def utterances(model: Synthesizer, sizes: Sequence[tuple[int, float]] = SIZES) -> list[Utterance]:
    """Return utterances of the given phoneme counts and speeds, each with its own seed."""
    return [
        Utterance(made.ids, made.style, speed, seed)
        for seed, (count, speed) in enumerate(sizes)
        for made in [random_utterance(model, count, seed)]
    ]


def speaking_core(model: Synthesizer, executor: Any, max_step_tokens: int = 2048) -> EngineCore:
    """Build a core whose only model is the speech model, named `voice`."""
    scheduler = OneShotScheduler(
        "voice", make_policy("fcfs"), max_model_tokens=model.max_positions, num_stages=len(model.stages),
        max_step_tokens=max_step_tokens,
    )  # fmt: skip
    core = EngineCore()
    core.add_model(ModelSlot("voice", scheduler, executor))
    return core


def add(core: EngineCore, spoken: list[Utterance]) -> list[Request]:
    requests = [
        Request(f"r{n}", "voice", list(utterance.ids), SamplingParams(), task="synthesize", inputs=utterance)
        for n, utterance in enumerate(spoken)
    ]
    for request in requests:
        core.add(request)
    return requests


def speak(core: EngineCore, spoken: list[Utterance]) -> list[Speech]:
    requests = add(core, spoken)
    while core.has_work:
        core.step()
        core.check_integrity()
    assert [request.error for request in requests] == [None] * len(requests)
    return [request.result for request in requests]


def difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return ‖got − expected‖ / ‖expected‖."""
    got, expected = got.cpu().double(), expected.cpu().double()
    return float((got - expected).norm() / expected.norm())
