"""Speech with the GPU backend's operations: what the CPU speaks, for a batch and for each of its utterances alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from antiphon import ops
from antiphon.executor.device.synthesis import DeviceSynthesisExecutor
from antiphon.layers.module import Halvable
from antiphon.ops import Device
from antiphon.ops.device import DeviceLimits
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from support.engine.placement import tensors_below
from support.models.tiny_voice import (
    build_voice,
    difference,
    speak,
    speaking_core,
    speech_on_cpu,
    stages_of,
    utterances,
)

#: Of the samples, by precision: rounding moves the phase of the pitch, and fp16 has eleven bits.
TOLERANCES = {"fp32": 5e-3, "fast": 3e-2}
#: Few phonemes, and rows that go to the library's product: the interpreter takes long for others.
SIZES = {"hibari": ((4, 1.5), (3, 2.0), (3, 2.5)), "kokoro": ((4, 1.0), (3, 1.2), (3, 0.6))}


@pytest.fixture
def device() -> Iterator[Device]:
    target = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    with ops.use_backend("triton"):
        yield Device(target, ops.get_backend("triton"), torch.bfloat16, DeviceLimits("a card", 0))


@pytest.mark.parametrize(("name", "precision"), [("hibari", "fp32"), ("kokoro", "fp32"), ("kokoro", "fast")])
def test_speech_is_the_cpus(name: str, precision: str, device: Device) -> None:
    if device.is_cpu and (name, precision) == ("kokoro", "fp32"):
        pytest.skip("the interpreter takes long: in 16 bits it runs the same kernels")
    model = build_voice(name)
    ops.get_backend("triton").prepare_weights(list(model.weights()), device=device.torch, dtype=torch.float32)
    prepare(model, LoadReport(), WeightOptions(precision=precision), device=device)
    assert {tensor.device.type for tensor in tensors_below(model)} == {device.torch.type}
    halves = {node.half for node in model.modules() if isinstance(node, Halvable)}
    assert halves == ({True, False} if precision == "fast" else {False})
    executor = DeviceSynthesisExecutor(stages_of(model), device)
    spoken = utterances(model, SIZES[name])
    core = speaking_core(model, executor)
    together = speak(core, spoken)
    for speech, other in zip(together, speech_on_cpu(name, spoken), strict=True):
        assert speech.samples.device.type == "cpu"
        assert speech.id_samples == other.id_samples
        assert difference(speech.samples, other.samples) < TOLERANCES[precision]
    if not device.is_cpu:
        for utterance, speech in zip(spoken, together, strict=True):
            [alone] = speak(core, [utterance])
            assert alone.id_samples == speech.id_samples
            assert difference(alone.samples, speech.samples) < TOLERANCES[precision]
    executor.close()
