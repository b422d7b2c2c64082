"""The whole engine over a device that runs behind it, two steps in flight: answers are those of one step at a time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest

from antiphon import Engine, GrammarSpec, SamplingParams
from antiphon.engine.model_slot import ModelSlot
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots import decoder
from support.engine.late_device import LateDevice, LateExecutor
from support.models.tiny_whisper import tiny_whisper

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> list[LateExecutor]:
    """Makes decoders late from the second engine on; these are their executors."""
    made: list[LateExecutor] = []
    slots: list[ModelSlot] = []

    def late_slot(name: str, scheduler: Any, executor: Any, **fields: Any) -> ModelSlot:
        slot = ModelSlot(name, scheduler, executor, **fields)
        slots.append(slot)
        if len(slots) > 1:
            slot.depth = 2
            slot.executor = LateExecutor(executor, LateDevice(random.Random(len(slots))))
            made.append(slot.executor)
        return slot

    monkeypatch.setattr(decoder, "ModelSlot", late_slot)
    return made


def both(loaded: LoadedModel, answer: Callable[[Engine], Any], executors: list[LateExecutor], **options: Any) -> Any:
    """The answer, the same with one step at a time and with a late device."""
    with Engine(loaded, kv_bytes=32 << 20, **options) as engine:
        expected = answer(engine)
    with Engine(loaded, kv_bytes=32 << 20, **options) as engine:
        assert answer(engine) == expected
    (executor,) = executors
    assert executor.num_late_plans > 10
    assert not executor.device.wrong
    return expected


def test_json_beside_free_text(tiny_loaded: LoadedModel, executors: list[LateExecutor]) -> None:
    def answer(engine: Engine) -> tuple[list[str], str]:
        free = engine.stream([1, 2, 3], SamplingParams(max_tokens=60, ignore_eos=True))
        people = [
            engine.stream(
                "hello",
                SamplingParams(max_tokens=80, temperature=2.0, seed=seed),
                grammar=GrammarSpec(json_schema=PERSON),
            )
            for seed in range(4)
        ]
        return [person.wait().text for person in people], free.wait().text

    people, _ = both(tiny_loaded, answer, executors, key_type="fp32", value_type="fp32")
    for person in people:
        jsonschema.validate(json.loads(person), PERSON)


@pytest.mark.parametrize("options", [{}, {"words": True}, {"timestamps": False}])
def test_transcription(options: dict[str, Any], executors: list[LateExecutor]) -> None:
    """Rules of transcripts, probes and observed attention; random weights satisfy no guard, so one attempt is made."""
    sound = (np.random.default_rng(7).standard_normal(12 * 16_000) * 0.1).astype(np.float32)

    def answer(engine: Engine) -> list[Any]:
        found = engine.transcribe(sound, voice_activity=False, temperatures=(0.0,), no_speech_limit=1.0, **options)
        return [(segment.tokens, segment.start, segment.end, segment.words) for segment in found.segments]

    assert both(tiny_whisper(), answer, executors)
