"""Speech on a device: an imitation of one on the CPU, and a card that is not there but minds where tensors are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from antiphon import ops
from antiphon.engine.request import FinishReason
from antiphon.executor.device.synthesis import DeviceSynthesisExecutor
from antiphon.executor.sampling.transfer import Transfer
from antiphon.models.base.speech_state import SpeechState, Utterance, join
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.models.hibari import Hibari
from antiphon.ops import Device
from antiphon.ops.backend import Backend, use_operations
from antiphon.ops.reference.activation import activate
from antiphon.runtime.loading.weight_forms import LoadReport, prepare
from support.models.tiny_voice import (
    TINY_VOICES,
    add,
    build_voice,
    difference,
    speak,
    speaking_core,
    speech_on_cpu,
    stages_of,
    tiny_voice,
    utterances,
)


@pytest.fixture(params=TINY_VOICES)
def name(request: pytest.FixtureRequest) -> str:
    voice: str = request.param
    return voice


@pytest.fixture
def model(name: str) -> Synthesizer:
    return tiny_voice(name)


@pytest.fixture
def executor(model: Synthesizer) -> Iterator[DeviceSynthesisExecutor]:
    made = DeviceSynthesisExecutor(stages_of(model), Device.parse("cpu"))
    yield made
    made.close()


def test_a_batch_is_what_each_is_on_the_cpu(name: str, model: Synthesizer, executor: DeviceSynthesisExecutor) -> None:
    core = speaking_core(model, executor)
    together = speak(core, utterances(model))
    steps = list(core.telemetry.steps)
    assert len(steps) == len(model.stages), "a stage of three utterances is one step"
    for speech, expected in zip(together, speech_on_cpu(name, utterances(model)), strict=True):
        assert speech.id_samples == expected.id_samples
        assert sum(speech.id_samples) == len(speech.samples)
        assert difference(speech.samples, expected.samples) < 2e-3
    [alone] = speak(core, utterances(model)[1:2])
    assert difference(alone.samples, together[1].samples) < 2e-3


def test_two_things_come_to_the_host(
    model: Synthesizer, executor: DeviceSynthesisExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Durations after the first stage and samples after the last; in between states stay where they are."""
    sent: list[list[int]] = []

    class Counted(Transfer):
        def start(self, stream: Any = None) -> None:
            sent.append([tensor.dim() for tensor in self._tensors])
            super().start(stream)

    monkeypatch.setattr("antiphon.executor.device.one_shot.Transfer", Counted)
    speak(speaking_core(model, executor), utterances(model))
    assert sent == [[2], *([[]] * (len(model.stages) - 2)), [2]]


def test_a_stage_that_ran_out_of_memory_is_run_again_in_halves(
    model: Synthesizer, executor: DeviceSynthesisExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stage fails at first while it computes more than one utterance."""
    expected = speak(speaking_core(model, executor), utterances(model))
    failed: set[int] = set()
    run_stage = model.run_stage

    def run(stage: int, state: SpeechState) -> SpeechState:
        after = run_stage(stage, state)
        if len(state.utterances) > 1 and stage not in failed:
            failed.add(stage)
            raise torch.OutOfMemoryError("planted")
        return after

    monkeypatch.setattr(model, "run_stage", run)
    core = speaking_core(model, executor)
    core.slots["voice"].translate = Device.parse("cpu").translate
    for speech, other in zip(speak(core, utterances(model)), expected, strict=True):
        assert speech.id_samples == other.id_samples
        assert difference(speech.samples, other.samples) < 2e-3
    assert failed


def test_an_aborted_request_leaves_the_others_alone(model: Synthesizer, executor: DeviceSynthesisExecutor) -> None:
    core = speaking_core(model, executor)
    expected = speak(core, utterances(model))
    first, goes, last = add(core, utterances(model))
    core.step()
    core.abort(goes.id)
    while core.has_work:
        core.step()
    assert goes.finish_reason is FinishReason.CANCELLED
    for request, speech in ((first, expected[0]), (last, expected[2])):
        assert difference(request.result.samples, speech.samples) < 2e-3


class OneDevice(TorchDispatchMode):
    """Fails where an operation takes a tensor of the CPU beside one of the card, or brings one to the host.

    A single number of the CPU may be beside them, as on a card.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        is_there = any(tensor.is_meta for tensor in tensors)
        strays = [tensor.shape for tensor in tensors if not tensor.is_meta and tensor.dim()]
        assert not (is_there and strays), f"{func} takes a tensor of the CPU: {strays}"
        result = func(*args, **(kwargs or {}))
        if is_there:
            for made in tree_leaves(result):
                assert not isinstance(made, Tensor) or made.is_meta, f"{func} brings a tensor to the host"
        return result


def _finish(y: Tensor, bias: Any, activation: Any, residual: Any, dtype: torch.dtype) -> Tensor:
    y = activate(y.float() if bias is None else y + bias, activation)
    return (y if residual is None else y + residual).to(dtype)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A card without numbers: its tensors have shapes, and reading a value of one raises an error.

    It computes with the GPU backend's own operations where these call PyTorch, and with the reference's elsewhere.
    """
    pytest.importorskip("triton")
    from antiphon.ops.triton import recurrent
    from antiphon.ops.triton.sound import convolution, spectrum

    monkeypatch.setattr(convolution, "finish", _finish)
    monkeypatch.setattr(recurrent, "_compact", lambda weights: list(vars(weights).values()))
    own = SimpleNamespace(
        attention=lambda q, *_, **__: torch.empty_like(q),  # a kernel, which has no need of the host
        conv1d=convolution.conv1d, conv_transpose1d=convolution.conv_transpose1d, half_conv1d=convolution.half_conv1d,
        half_conv_transpose1d=convolution.half_conv_transpose1d, half_type=convolution.half_type,
        harmonic_spectrum=spectrum.harmonic_spectrum, lstm=recurrent.lstm,
        prepare_weights=ops.get_backend("reference").prepare_weights,
    )  # fmt: skip
    backend = Backend("triton", [own])
    with use_operations(backend):
        yield Device(torch.device("meta"), backend, torch.bfloat16, Device.parse("cpu").limits)


def stage_by_stage(model: Synthesizer, spoken: Sequence[Utterance]) -> SpeechState:
    states = [SpeechState((utterance,)) for utterance in spoken]
    with torch.inference_mode():
        for stage in range(len(model.stages)):
            with OneDevice():
                states = model.advance(stage, states, lambda function, states: [function(join(states))])
            if stage == 0:  # the durations that would have come to the host
                states = [states[0].timed([[3] * len(utterance.ids) for utterance in spoken])]
    return states[0]


def test_every_tensor_is_on_the_card_and_none_is_read(name: str, card: Device) -> None:
    model = build_voice(name)
    spoken = utterances(model)
    prepare(model, LoadReport(), device=card)
    assert model.device.type == "meta"
    last = stage_by_stage(model, spoken)
    assert all(tensor.is_meta for tensor in (*last.tensors.values(), *last.lengths.values()))
    assert last.tensors["samples"].shape[0] == len(spoken)
    with OneDevice():
        assert last.take([2, 0]).tensors["samples"].is_meta


@pytest.mark.parametrize("stray", ["weight", "index", "reading"])
def test_a_tensor_of_the_cpu_is_found(stray: str, card: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_voice("hibari")
    assert isinstance(model, Hibari)
    spoken = utterances(model)
    prepare(model, LoadReport(), device=card)
    run_stage = model.run_stage

    def run(stage: int, state: SpeechState) -> SpeechState:
        after = run_stage(stage, state)
        if stage == 2:
            counts = after.tensors["counts"].cpu() if stray == "reading" else after.tensors["counts"][torch.arange(2)]
            after = after.with_(counts=counts)
        return after

    if stray == "weight":
        model.decoder_norm.bias = torch.zeros(model.decoder_norm.bias.shape)
    else:
        monkeypatch.setattr(model, "run_stage", run)
    error = "brings a tensor|Cannot copy out" if stray == "reading" else "takes a tensor of the CPU"
    with pytest.raises((AssertionError, NotImplementedError), match=error):
        stage_by_stage(model, spoken)
