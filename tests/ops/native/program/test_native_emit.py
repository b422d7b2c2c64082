"""The native emitter has a call for every instruction, and says what it has no kernel for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

from antiphon import ops
from antiphon.errors import UnrecordableError
from antiphon.ops import native
from antiphon.ops.native.program import check
from antiphon.ops.native.program.emit import EMITTERS, emit
from antiphon.ops.program import InputSpec, Recording, record
from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

pytestmark = pytest.mark.skipif(not native.available(), reason="the native extension was not built")

X = InputSpec("x", torch.float32, ("T", 256))
FRAMES = InputSpec("x", torch.float32, ("B", ("S", 0, 2), 64))


def recorded(forward: Callable[[Any], Any], spec: InputSpec = X) -> Recording:
    return record(lambda inputs, _: forward(inputs["x"]), (spec,))


def test_every_instruction_has_an_emitter() -> None:
    kinds = {kind for kind in vars(program).values() if isinstance(kind, type) and issubclass(kind, Instruction)}
    assert set(EMITTERS) == kinds - {Instruction}


def test_calls_follow_the_instructions() -> None:
    weight, gain = Weight.from_tensor(torch.randn(256, 256)), torch.ones(256)
    recording = recorded(lambda x: ops.l2_normalize(ops.linear(ops.rms_norm(x, gain, 1e-6)[0], weight)))
    emitted = emit(recording)
    assert [method for method, _ in emitted.calls] == ["norm", "linear", "l2_normalize"]
    assert [constant.shape for constant in emitted.layout.constants] == [(256,)]
    assert check(recording) is recording


def test_a_convolution_is_recorded_with_its_own_weight_and_emitted_with_panels() -> None:
    weight = torch.randn(24, 64, 3)
    recording = recorded(lambda x: ops.conv1d(x, weight, stride=2, padding=(1, 1)), FRAMES)
    (instruction,) = recording.instructions
    assert isinstance(instruction, program.ConvolutionInstruction) and instruction.filter.value.constant is weight
    (panels,) = emit(recording).layout.constants
    assert panels.shape == (3, 3 * 64, 8)


def test_a_weight_of_a_type_without_a_kernel_is_rejected() -> None:
    weight = Weight((WeightPart(TensorType.TQ1_0, 2, torch.zeros(2, 54, dtype=torch.uint8)),), 256)
    recording = recorded(lambda x: ops.linear(x, weight))
    with pytest.raises(UnrecordableError, match="a linear layer has a type that no native kernel reads: TQ1_0"):
        check(recording)


def test_a_convolution_that_pytorch_computes_is_rejected() -> None:
    weight = torch.randn(64, 64, 3)
    recording = recorded(lambda x: ops.conv1d(x, weight, padding=(1, 1)), FRAMES)
    with pytest.raises(UnrecordableError, match=r"a weight of \(64, 64, 3\) is computed by PyTorch"):
        check(recording)


class Unknown(Instruction):
    kind: ClassVar = "unknown"
    results: ClassVar = ()


def test_an_instruction_without_an_emitter_is_rejected() -> None:
    with pytest.raises(UnrecordableError, match="unknown has no native kernel that a program could run"):
        check(Recording((), (), (Unknown(),), None))


def test_without_the_extension_nothing_is_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = recorded(ops.l2_normalize)
    monkeypatch.setattr("antiphon.ops.native.program.emit.available", lambda: False)
    with pytest.raises(UnrecordableError, match="the native backend was not built"):
        check(recording)
