"""The slots of a model follow from the parts that it declares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from antiphon.engine.core import EngineCore
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import UnsupportedError
from antiphon.executor.decoder.executor import DecoderExecutor
from antiphon.executor.device.synthesis import DeviceSynthesisExecutor
from antiphon.executor.embedding import EmbeddingExecutor
from antiphon.executor.encoder import EncoderExecutor
from antiphon.models.base.model import Model, Task
from antiphon.models.base.parts import Encoder, Part, TextEmbedding, TokenDecoder
from antiphon.models.base.speech_state import Speech, SpeechState, Utterance
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.context import SlotContext
from antiphon.runtime.slots.embedding import embedding_slot
from antiphon.runtime.slots.registry import SLOT_MAKERS
from antiphon.runtime.slots.resident import encoder_name, make_slots, slot_names
from antiphon.runtime.slots.synthesis import DEVICE_STEP_TOKENS
from support.engine.placement import meta_device
from support.models.tiny_model import write_bert
from support.models.tiny_whisper import tiny_whisper

CONFIG = EngineConfig(kv_bytes=8 << 20)


def slots_of(loaded: LoadedModel) -> list[ModelSlot]:
    return make_slots(loaded, Arena.allocate(CONFIG), CONFIG)


def test_a_decoder_is_one_slot(tiny_llama: Path) -> None:
    loaded = load_model(str(tiny_llama))
    (slot,) = slots_of(loaded)
    assert isinstance(slot.executor, DecoderExecutor)
    assert [slot.name] == slot_names(loaded.name, loaded.model) == [loaded.name]


def test_an_embedding_is_one_slot(tmp_path: Path) -> None:
    loaded = load_model(str(write_bert(tmp_path)))
    (slot,) = slots_of(loaded)
    assert isinstance(slot.executor, EmbeddingExecutor) and slot.name == loaded.name


def test_an_encoder_feeds_its_decoder_and_shares_its_time() -> None:
    loaded = tiny_whisper()
    assert [type(part) for part in loaded.model.parts()] == [Encoder, TokenDecoder]
    decoder, encoder = slots_of(loaded)
    assert isinstance(decoder.executor, DecoderExecutor) and isinstance(encoder.executor, EncoderExecutor)
    assert [decoder.name, encoder.name] == slot_names(loaded.name, loaded.model)
    assert encoder.name == encoder_name(loaded.name) == "tiny-whisper encoder"
    assert encoder.feeds is decoder and encoder.clock is decoder.clock


class ToySynthesizer(Synthesizer):
    """Two stages: every id is as many samples as its number, of that value."""

    stages, lone_stages = ("counts", "samples"), 1
    sample_rate, lead_samples, style_size = 24_000, 0, 0
    vocab_size, max_positions = 10, 32

    @classmethod
    def from_checkpoint(cls, checkpoint: object) -> ToySynthesizer:
        raise NotImplementedError

    def run_stage(self, stage: int, state: SpeechState) -> SpeechState:
        assert stage == 0 or state.tensors["counts"].shape[0] == len(state.utterances)
        if stage == 0:
            return state.with_(counts=torch.tensor([list(utterance.ids) for utterance in state.utterances]))
        samples = [counts.repeat_interleave(counts) for counts in state.tensors["counts"]]
        return state.with_(samples=torch.nn.utils.rnn.pad_sequence(samples, batch_first=True))

    def speech(self, state: SpeechState) -> list[Speech]:
        rows = zip(state.utterances, state.tensors["samples"], strict=True)
        return [Speech(samples[: sum(utterance.ids)], list(utterance.ids)) for utterance, samples in rows]


def test_a_synthesiser_runs_its_stages_as_steps() -> None:
    loaded = replace(tiny_whisper(), model=ToySynthesizer(), name="voice")
    core = EngineCore()
    for slot in slots_of(loaded):
        core.add_model(slot)
    requests = [
        Request(f"r{n}", "voice", ids, SamplingParams(), task="synthesize", inputs=Utterance(ids, torch.empty(0)))
        for n, ids in enumerate(([1, 2, 3], [4, 1], [2, 2, 1]))
    ]
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
    assert [request.result.samples.tolist() for request in requests] == [
        [1, 2, 2, 3, 3, 3], [4, 4, 4, 4, 1], [2, 2, 2, 2, 1],
    ]  # fmt: skip
    assert {step.stage for step in core.telemetry.steps} == {0, 1}
    core.remove_model("voice")


def test_a_synthesiser_on_a_device_computes_utterances_together() -> None:
    loaded = replace(tiny_whisper(), model=ToySynthesizer(), name="voice", device=meta_device())
    (slot,) = slots_of(loaded)
    assert isinstance(slot.executor, DeviceSynthesisExecutor) and not slot.computes_in_submit
    assert isinstance(slot.scheduler, OneShotScheduler)
    assert slot.scheduler.side_by_side == 1 and slot.scheduler.max_step_tokens == DEVICE_STEP_TOKENS
    slot.executor.close()


class Plain(Model):
    """A model with the parts that it is given."""

    task = Task.VOICE_ACTIVITY
    vocab_size = max_positions = 0

    def __init__(self, *parts: Part) -> None:
        self._declared = parts

    @classmethod
    def from_checkpoint(cls, checkpoint: object) -> Plain:
        raise NotImplementedError

    def parts(self) -> tuple[Part, ...]:
        return self._declared


def test_a_model_without_parts_is_not_served() -> None:
    loaded = replace(tiny_whisper(), model=Plain(), name="detector")
    with pytest.raises(UnsupportedError, match="detector is a voice activity detector; the engine uses it inside"):
        slots_of(loaded)


@dataclass(frozen=True)
class Detector(Part):
    role = "detector"

    chunk: int


def test_a_new_kind_of_part_is_one_registry_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def detector_slot(part: Detector, context: SlotContext) -> ModelSlot:
        return embedding_slot(TextEmbedding(part.owner, part.chunk, lambda ids, positions, starts: ids), context)

    monkeypatch.setitem(SLOT_MAKERS, Detector, detector_slot)
    loaded = replace(tiny_whisper(), model=Plain(Detector("Plain", 512)), name="detector")
    (slot,) = slots_of(loaded)
    assert (slot.name, slot.scheduler.max_model_tokens) == ("detector", 512)  # type: ignore[attr-defined]
