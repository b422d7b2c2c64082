"""Once a model is put on a device, none of its tensors is anywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from antiphon.layers.module import Module
from antiphon.models.registry import build_model
from antiphon.runtime.loading.loading import load_model
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint
from support.engine.placement import meta_device, stray_tensors, tensors_below
from support.models.tiny_model import write_bert
from support.models.tiny_whisper import tiny_whisper


class Leaky(Module):
    def __init__(self) -> None:
        here = torch.zeros(3)
        self.known = [torch.ones(2), {"deep": (here, here)}]
        self.function = lambda: here


def test_shared_tensors_stay_shared_and_strays_are_found() -> None:
    module = Leaky()
    module.place(torch.device("meta"))
    first, second = module.known[1]["deep"]
    assert first is second and first.device.type == "meta"
    assert [tensor.device.type for tensor in tensors_below(module)].count("cpu") == 1


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gguf"])
def test_decoders(name: str, request: pytest.FixtureRequest) -> None:
    assert stray_tensors(build_model(open_checkpoint(request.getfixturevalue(name)))) == []


def test_encoders(tmp_path: Path) -> None:
    assert stray_tensors(build_model(open_checkpoint(write_bert(tmp_path / "bert")))) == []
    assert stray_tensors(tiny_whisper().model) == []


@pytest.mark.weights
@pytest.mark.parametrize("name", ["smollm2-135m", "hibari-6m", "kokoro-82m", "whisper-tiny.en"])
def test_real_models(name: str) -> None:
    assert stray_tensors(build_model(open_checkpoint(resolve(name).path))) == []


def test_a_model_is_loaded_onto_its_device(tiny_llama: Path) -> None:
    device = meta_device()
    loaded = load_model(str(tiny_llama), device=device)
    assert loaded.device is device and loaded.report.device == "meta" and "on meta" in loaded.report.line()
    assert {tensor.device.type for tensor in tensors_below(loaded.model)} == {"meta"}


@pytest.mark.weights
def test_detectors_are_always_on_the_cpu() -> None:
    loaded = load_model("silero-vad", device=meta_device(), may_move=True)
    assert loaded.device.name == "cpu"
    assert {tensor.device.type for tensor in tensors_below(loaded.model)} == {"cpu"}
