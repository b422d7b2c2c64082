"""Whisper on a card: recordings become the tokens, probabilities and attention that they become on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from antiphon import ops
from antiphon.audio.mel import window_features
from antiphon.bench.random_models.random_model import NumberTokenizer
from antiphon.engine.beam import BeamGroup
from antiphon.engine.core import EngineCore
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from antiphon.executor.device.encoder import DeviceEncoderExecutor
from antiphon.executor.device.executor import DeviceExecutor
from antiphon.models.registry import build_model
from antiphon.ops import Device
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.resident import encoder_name, make_slots
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.engine.running import run
from support.kernels.cards import a_card, loaded_on
from support.models.tiny_whisper import MELS, MULTILINGUAL, small_dims, state_dict, tiny_whisper

NAME = "ears"
STATES, TEXT_POSITIONS, VOCABULARY = 6, 16, 90
START, END, LANGUAGES, TASK, NO_SPEECH, FIRST_TIMESTAMP = 50, 51, (52, 53, 54), 55, 56, 60
DIMS = small_dims(VOCABULARY, STATES, TEXT_POSITIONS)
Make = Callable[[torch.Tensor, int], list[Request]]


@pytest.fixture
def device() -> Iterator[Device]:
    with ops.use_backend("triton"), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield a_card()


def slots_on(device: Device) -> list[ModelSlot]:
    checkpoint = StateDictCheckpoint(state_dict(dims=DIMS), "whisper", DIMS, format="openai-whisper")
    loaded = loaded_on(device, build_model(checkpoint), NumberTokenizer(VOCABULARY), NAME)
    config = EngineConfig(
        kv_bytes=1 << 20, max_running=8, max_step_tokens=64, key_type="fp32", value_type="fp32", block_tokens=8
    )
    return make_slots(loaded, Arena.allocate(config, device), config)


def recordings(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    lengths = [STATES * 320 - 300 * number for number in range(count)]
    return [generator.standard_normal(length).astype(np.float32) * 0.1 for length in lengths]


def rules(first_timestamp: int | None = FIRST_TIMESTAMP, detects: bool = True) -> TranscriptRules:
    opening = (LANGUAGES, (TASK,)) if detects else ()
    return TranscriptRules(
        begin=1 + len(opening), end_id=END, opening=opening, blank=frozenset({3}), first_timestamp=first_timestamp
    )


def request(states: torch.Tensor, name: str, prompt: list[int], params: SamplingParams, **details: Any) -> Request:
    stops = frozenset({END})
    return Request(name, NAME, prompt, params, inputs=states, cross_tokens=STATES, stop_ids=stops, **details)


def answers(device: Device, make: Make) -> tuple[list[Request], list[ModelSlot]]:
    """The ended requests that `make` makes of the states of each recording, with other recordings beside them."""
    core, slots = EngineCore(), slots_on(device)
    for slot in slots:
        core.add_model(slot)
    sounds = recordings(2)
    if device.is_cpu:
        inputs = [torch.from_numpy(window_features(sound, MELS, STATES / 50)) for sound in sounds]
    else:
        inputs = [torch.from_numpy(sound) for sound in sounds]
    encodings = [
        Request(f"encode {number}", encoder_name(NAME), [0] * STATES, SamplingParams(), inputs=own, task="encode")
        for number, own in enumerate(inputs)
    ]
    run(core, encodings)
    assert all(encoding.finish_reason is FinishReason.STOP for encoding in encodings)
    assert all(encoding.result.device.type == device.torch.type for encoding in encodings)
    made = [own for number, encoding in enumerate(encodings) for own in make(encoding.result, number)]
    run(core, made)
    return made, slots


def check(device: Device, make: Make) -> tuple[DeviceExecutor, DeviceEncoderExecutor]:
    """The executors that the answers came from."""
    with ops.use_backend(ops.available_backends()[0]):
        expected, _ = answers(Device.parse("cpu"), make)
    got, slots = answers(device, make)
    near = 5e-2 if torch.cuda.is_available() else 2e-3
    for own, other in zip(got, expected, strict=True):
        assert own.finish_reason is other.finish_reason and other.error is None, own.error
        assert own.output == other.output, own.id
        assert own.drawn_logprobs == pytest.approx(other.drawn_logprobs, abs=near)
        assert own.probed == (None if other.probed is None else pytest.approx(other.probed, abs=near))
        assert own.prompt_logprobs == pytest.approx(other.prompt_logprobs, abs=near)
        assert own.observed.keys() == other.observed.keys()
        for start, attention in own.observed.items():
            assert attention.device.type == "cpu" and attention.shape == other.observed[start].shape
            assert (attention - other.observed[start]).abs().max() < near
    decoder, encoder = (slot.executor for slot in slots)
    assert isinstance(encoder, DeviceEncoderExecutor) and isinstance(decoder, DeviceExecutor)
    return decoder, encoder


def test_transcripts_with_detected_languages(device: Device) -> None:
    """Greedy, by the rules, with the probability of no speech; decode steps are graphs."""

    def make(states: torch.Tensor, number: int) -> list[Request]:
        params = SamplingParams(0.0, max_tokens=5, banned_tokens=frozenset({5, 6}))
        return [request(states, f"{number}", [START], params, rules=rules(), probe=(0, NO_SPEECH))]

    decoder, encoder = check(device, make)
    assert decoder.num_decode_steps > 0
    decoder.close()
    encoder.close()


def test_beams_and_draws_of_one_window(device: Device) -> None:
    """Hypotheses that share the states of their window, and several draws of which the likeliest is taken."""

    def make(states: torch.Tensor, number: int) -> list[Request]:
        search = BeamGroup[Request](2) if number == 0 else None
        made: list[Request] = []
        for seed in range(2):
            params = SamplingParams(0.0 if search else 0.8, seed=seed, max_tokens=3)
            made.append(
                request(
                    states, f"{number} {seed}", [START], params, rules=rules(None, detects=False), beam=search,
                    fork_of=made[0] if made else None,
                )
            )  # fmt: skip
        if search is not None:
            search.members = made
        return made

    check(device, make)


def test_words_are_aligned(device: Device) -> None:
    def make(states: torch.Tensor, number: int) -> list[Request]:
        params = SamplingParams(0.0, max_tokens=1, prompt_logprobs=True)
        return [request(states, f"{number}", [START, 10 + number, 11, 12, END], params, observes=True)]

    check(device, make)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the interpreter takes minutes for the real vocabulary")
def test_recordings_through_an_engine() -> None:
    """Twice: kernels are compiled and graphs captured the first time."""
    options: dict[str, Any] = dict(voice_activity=False, temperatures=(0.0,), words=True)
    sounds = [np.random.default_rng(seed).standard_normal(20 * 16_000).astype(np.float32) * 0.1 for seed in (0, 1, 2)]
    with Engine(tiny_whisper(MULTILINGUAL), device="cpu", kv_bytes=64 << 20) as engine:
        expected = engine.transcribe_all(sounds, **options)
    loaded = tiny_whisper(MULTILINGUAL)
    card = loaded_on(a_card(), loaded.model, loaded.tokenizer, loaded.name)
    with Engine(card, device="cuda", compute_type="fp32", kv_bytes=64 << 20) as engine:
        for _ in range(2):
            got = engine.transcribe_all(sounds, **options)
            for own, other in zip(got, expected, strict=True):
                assert own.language == other.language and own.text[:24] == other.text[:24]
                assert len(own.segments) > 0 and own.segments[0].words
