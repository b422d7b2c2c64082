"""What loading makes of weights: packed, kept or quantised; how close the model stays, and how much memory it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from antiphon import ops
from antiphon.errors import InvalidRequestError, UnsupportedError
from antiphon.models.registry import build_model
from antiphon.models.whisper import Whisper
from antiphon.ops.device import Device, DeviceLimits
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.types import TensorType
from support.kernels.paged import PagedRunner
from support.models.tiny_model import write_gguf
from support.models.tiny_whisper import dims, state_dict, vocabulary
from weights.whisper_files import ggml_file

pytestmark = pytest.mark.skipif("native" not in ops.available_backends(), reason="the extension was not built")

TOKENS = list(range(5, 35))


def logits(loaded: LoadedModel) -> torch.Tensor:
    (rows,) = PagedRunner(loaded.causal_lm(), 1, 64).step([(0, TOKENS, 0)])
    return rows


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return ((got - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_1", "Q4_0"])
def test_quantised_weights_are_packed_unless_told_otherwise(kind: str, tmp_path: Path) -> None:
    path = str(write_gguf(tmp_path / "model.gguf", quantised=kind))
    packed, kept = load_model(path), load_model(path, options=WeightOptions(repack=False))
    assert all(form.packed and form.type is TensorType[kind] for form in packed.report.forms)
    assert not any(form.packed for form in kept.report.forms)
    assert all(not weight.parts for weight in packed.model.weights())
    assert all(weight.parts for weight in kept.model.weights())
    assert " MB packed" in packed.report.line() and "kept as stored" in kept.report.line()
    assert packed.report.resident_bytes == sum(weight.resident_bytes for weight in packed.model.weights())
    assert relative(logits(packed), logits(kept)) < 0.02


@pytest.mark.parametrize(("quantize", "tolerance", "share"), [("int8", 0.03, 0.35), ("q4", 0.3, 0.35)])
def test_floats_are_quantised_when_asked_for(quantize: str, tolerance: float, share: float, tiny_gguf: Path) -> None:
    exact = load_model(str(tiny_gguf))
    loaded = load_model(str(tiny_gguf), options=WeightOptions(quantize=quantize))
    types = {form.quantized for form in loaded.report.forms}
    assert types == ({TensorType.Q8_0} if quantize == "int8" else {TensorType.Q8_0, TensorType.Q4_1})
    assert "quantised to Q8_0" in loaded.report.line()
    assert loaded.report.resident_bytes <= share * sum(loaded.report.bytes_by_type.values())
    assert relative(logits(loaded), logits(exact)) < tolerance


def test_an_engine_quantises_what_it_loads(tiny_gguf: Path) -> None:
    with Engine(str(tiny_gguf), kv_bytes=1 << 22, quantize="int8") as engine:
        (answer,) = engine.generate(["hello there"])
        assert answer.token_ids
    with pytest.raises(InvalidRequestError, match="quantize is 'int3'; it must be one of: auto, none, int8, q4, fp8"):
        EngineConfig(quantize="int3")
    with pytest.raises(InvalidRequestError, match="precision is 'fp8'; it must be one of: fast, fp32"):
        EngineConfig(precision="fp8")


def test_fp8_needs_a_gpu(tiny_gguf: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"fp8 weights need an NVIDIA GPU.*on the CPU use int8 or q4"):
        load_model(str(tiny_gguf), options=WeightOptions(quantize="fp8"))


def test_the_reference_backend_does_not_quantise(tiny_gguf: Path) -> None:
    with ops.use_backend("reference"), pytest.raises(UnsupportedError, match="quantised by the native backend"):
        load_model(str(tiny_gguf), options=WeightOptions(quantize="int8"))


@pytest.mark.parametrize("quantize", [None, "auto", "none"])
def test_text_models_keep_their_floats_by_default(quantize: str | None, tiny_gguf: Path) -> None:
    forms = load_model(str(tiny_gguf), options=WeightOptions(quantize=quantize)).report.forms
    assert {form.quantized for form in forms} == {None}


@pytest.mark.parametrize(
    ("quantize", "is_int8"), [(None, False), ("auto", True), ("none", False), ("int8", True)], ids=str
)
def test_transcription_models_are_int8_by_default(quantize: str | None, is_int8: bool, tmp_path: Path) -> None:
    path = tmp_path / "ggml-tiny.bin"
    path.write_bytes(ggml_file(dims(), state_dict(), vocabulary(50257)))
    options = WeightOptions(quantize=quantize)
    quantized = {form.quantized for form in load_model(str(path), options=options).report.forms}
    assert quantized & {TensorType.I8, TensorType.Q8_0} if is_int8 else quantized == {None}
    with ops.use_backend("reference"):
        if quantize == "int8":
            with pytest.raises(UnsupportedError):
                load_model(str(path), options=options)
        else:
            load_model(str(path), options=options)


@pytest.mark.weights
def test_an_encoder_quantises_too() -> None:
    texts = ["The cat sat on the mat.", "Stock markets fell sharply today."]
    vectors = []
    for options in (WeightOptions(), WeightOptions(quantize="int8"), WeightOptions(quantize="q4")):
        with Engine(load_model("all-minilm-l6-v2", options=options), kv_bytes=1 << 20) as engine:
            vectors.append(torch.stack(engine.embed(texts)))
    for quantised, least in ((vectors[1], 0.999), (vectors[2], 0.97)):
        assert torch.nn.functional.cosine_similarity(vectors[0], quantised).min() >= least


@pytest.mark.weights
def test_whisper_quantises_too() -> None:
    """Rows and tokens have one scale each, as in CTranslate2's int8, which is 0.054 off its floats for such input."""
    features = torch.rand(1, 3000, 80, generator=torch.Generator().manual_seed(0)) * 2 - 1
    states = []
    for quantize in (None, "int8"):
        model = build_model(open_checkpoint(resolve("whisper-tiny.en").path))
        assert isinstance(model, Whisper)
        prepare(model, LoadReport(), WeightOptions(quantize=quantize))
        states.append(model.encode(features, torch.tensor([0, 1500], dtype=torch.int32)))
    assert relative(states[1], states[0]) < 0.06


PROGRAM = """
import torch
from antiphon.runtime.loading.loading import load_tokenizer
from antiphon.models.registry import build_model
from antiphon.runtime.loading.weight_forms import LoadReport, prepare
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.catalog.resolve import resolve
from antiphon.runtime.loading.process_memory import resident_bytes, return_memory

def resident():
    return_memory()
    return resident_bytes()

resolved = resolve("smollm2-135m")
checkpoint = open_checkpoint(resolved.path)
tokenizer = load_tokenizer(resolved, checkpoint)
torch.randn(64, 64) @ torch.randn(64, 64)
before = resident()
model = build_model(checkpoint)
prepare(model, LoadReport(), release_pages=checkpoint.release_pages)
print((resident() - before) / resolved.path.stat().st_size)
"""


@pytest.mark.weights
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_packed_model_takes_little_more_memory_than_its_file() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert 0.9 <= float(done.stdout) <= 1.15


@pytest.mark.parametrize(("dtype", "became"), [(torch.float16, "F16"), (torch.bfloat16, "BF16"), (torch.float32, "")])
def test_weights_on_a_device_have_its_compute_type(dtype: torch.dtype, became: str, tiny_gguf: Path) -> None:
    """The device is one without data, whose backend is the reference."""
    model = build_model(open_checkpoint(tiny_gguf))
    place = torch.device("meta")
    device = Device(place, ops.active_backend("meta"), dtype, DeviceLimits("none", 0))
    report = LoadReport()
    prepare(model, report, device=device)
    forms = [matrix for weight in model.weights() for matrix in weight.packed.values()]
    assert forms and {(matrix.dtype, matrix.device) for matrix in forms} == {(dtype, place)}
    size = sum(weight.rows * weight.columns for weight in model.weights()) * dtype.itemsize
    assert report.resident_bytes == size
    assert f"converted to {became}" in report.weights()
