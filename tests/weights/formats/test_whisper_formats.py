"""ggml and CTranslate2 files give the tensors that went in; whatever is wrong with one ends in an error of our own."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType, quants

from antiphon.errors import AntiphonError, CheckpointError, UnsupportedError
from antiphon.models.registry import build_model
from antiphon.models.whisper import Whisper
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.ctranslate2 import to_q8_0
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.types import TensorType
from support.models.tiny_whisper import HEADS, LAYERS, dims, state_dict
from weights.whisper_files import ctranslate2_file, ctranslate2_variables, ggml_file

VOCABULARY = 400
TOKENS = [bytes([byte]) for byte in range(256)]


def small_dims() -> dict[str, int]:
    return dims() | {"n_vocab": VOCABULARY}


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    return state_dict(VOCABULARY)


def floats(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    tensor = checkpoint.tensors()[name]
    return dequantize(tensor.data, tensor.type).view(tensor.shape)


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"])
def test_ggml_tensors(tmp_path: Path, state: dict[str, torch.Tensor], kind: str) -> None:
    path = tmp_path / "ggml-x.bin"
    type_ = GGMLQuantizationType[kind]
    path.write_bytes(ggml_file(small_dims(), state, TOKENS, type_))
    checkpoint = open_checkpoint(path)
    assert checkpoint.metadata["tokens"] == TOKENS
    assert set(checkpoint.tensors()) == set(state)
    name = "decoder.blocks.1.cross_attn.value.weight"
    reference = torch.from_numpy(quants.dequantize(quants.quantize(state[name].numpy(), type_), type_))
    assert torch.equal(floats(checkpoint, name), reference.float())
    assert torch.equal(floats(checkpoint, "encoder.conv1.bias"), state["encoder.conv1.bias"])
    model = build_model(checkpoint)
    assert isinstance(model, Whisper) and checkpoint.unused() == []


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_ctranslate2_tensors(tmp_path: Path, state: dict[str, torch.Tensor], kind: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(ctranslate2_file(ctranslate2_variables(state, LAYERS), HEADS, kind))
    checkpoint = open_checkpoint(path)
    model = build_model(checkpoint)
    assert isinstance(model, Whisper) and checkpoint.unused() == []
    assert model.config.decoder_heads == HEADS and model.config.vocab_size == VOCABULARY
    for ours, theirs in (
        ("model.decoder.layers.1.encoder_attn.v_proj.weight", "decoder.blocks.1.cross_attn.value.weight"),
        ("model.encoder.layers.0.self_attn.k_proj.weight", "encoder.blocks.0.attn.key.weight"),
        ("model.decoder.layers.0.final_layer_norm.bias", "decoder.blocks.0.mlp_ln.bias"),
    ):
        tolerance = {"float32": 0.0, "float16": 1e-3, "int8": 0.02}[kind]
        assert (floats(checkpoint, ours) - state[theirs]).abs().max() <= tolerance * state[theirs].abs().max()
    assert resolve(str(tmp_path)).format == "ctranslate2-whisper"


def test_int8_rows_become_blocks_with_the_same_integers() -> None:
    integers = torch.randint(-127, 128, (5, 96), dtype=torch.int8)
    divisors = torch.tensor([10.0, 1000.0, 37.5, 0.0, 4096.0])
    blocks = to_q8_0(integers.view(-1).view(torch.uint8), divisors, 96)
    decoded = dequantize(blocks, TensorType.Q8_0).view(5, 96)
    expected = torch.where(divisors[:, None] == 0, 0.0, integers / divisors[:, None])
    assert torch.allclose(decoded, expected, rtol=2**-10, atol=0)


def corrupted(data: bytes, seed: int) -> bytes:
    source = random.Random(seed)
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        position = (
            source.randrange(4, min(len(data), 4000)) if source.random() < 0.8 else source.randrange(4, len(data))
        )
        changed[position] = source.choice([0, 1, 127, 128, 255, source.randrange(256)])
    return bytes(changed)


@pytest.mark.parametrize("format_", ["ggml", "ctranslate2"])
def test_broken_files(tmp_path: Path, state: dict[str, torch.Tensor], format_: str) -> None:
    """Cut anywhere, or with bytes changed: rejected with a message, or read as a file of the same layout."""
    if format_ == "ggml":
        data = ggml_file(small_dims(), state, TOKENS)
    else:
        data = ctranslate2_file(ctranslate2_variables(state, LAYERS), HEADS)
    path = tmp_path / "model.bin"
    source = random.Random(0)
    cuts = [4, 5, 20, 48, 60, 300, *(source.randrange(len(data)) for _ in range(40)), len(data) - 1]
    for cut in cuts:
        path.write_bytes(data[:cut])
        with pytest.raises(AntiphonError) as error:
            build_model(open_checkpoint(path))
        assert str(path) in str(error.value) or "tensor" in str(error.value)
    for seed in range(150):
        path.write_bytes(corrupted(data, seed))
        with suppress(AntiphonError):
            build_model(open_checkpoint(path))


def test_a_variable_beside_the_layers_keeps_its_module(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    path = tmp_path / "model.bin"
    variables = ctranslate2_variables(state, LAYERS) | {"decoder/unknown": torch.ones(2, 3)}
    path.write_bytes(ctranslate2_file(variables, HEADS))
    assert torch.equal(floats(open_checkpoint(path), "decoder.unknown"), torch.ones(2, 3))


def test_what_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"lmgg" + struct.pack("<11i", 32000, 1500, 384, 6, 4, 448, 384, 6, 4, 64, 1) + bytes(64))
    with pytest.raises(CheckpointError, match="n_mels is 64"):
        open_checkpoint(path)
    path.write_bytes(ctranslate2_file({}, HEADS, spec="TransformerSpec"))
    with pytest.raises(UnsupportedError, match="TransformerSpec"):
        open_checkpoint(path)
