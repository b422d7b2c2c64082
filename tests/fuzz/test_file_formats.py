"""Damaged files of every format of weights and sound end in a result or in an error that names the file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.audio.decode import decode
from antiphon.audio.samples import DecodeLimits
from antiphon.errors import AntiphonError, UnsupportedError
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.ctranslate2 import CTranslate2Checkpoint
from antiphon.weights.formats.ggml import GgmlWhisperCheckpoint
from antiphon.weights.formats.gguf import GGUFCheckpoint
from antiphon.weights.formats.llama2c import Llama2cCheckpoint
from antiphon.weights.formats.onnx import OnnxCheckpoint
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.formats.safetensors import SafetensorsFile
from support.fuzzing import damaged, fuzz, seeds


def touch(checkpoint: Checkpoint) -> None:
    """Read every tensor, and convert it where its type can be."""
    for name, tensor in checkpoint.tensors().items():
        assert tensor.nbytes == math.prod(tensor.shape) // tensor.type.block.elements * tensor.type.block.size, name
        try:
            assert dequantize(tensor.data, tensor.type).numel() == math.prod(tensor.shape)
        except UnsupportedError:
            tensor.data.sum()


def gguf(path: Path) -> None:
    checkpoint = GGUFCheckpoint(path)
    touch(checkpoint)
    tokenizer = tokenizer_from_gguf(checkpoint.metadata)
    tokenizer.decode(tokenizer.encode("!a b\x00é"))


def safetensors(path: Path) -> None:
    for tensor in SafetensorsFile(path).tensors.values():
        tensor.data.sum()


READERS: dict[str, Callable[[Path], None]] = {
    "gguf": gguf,
    "safetensors": safetensors,
    "onnx": lambda path: touch(OnnxCheckpoint(path)),
    "ggml": lambda path: touch(GgmlWhisperCheckpoint(path)),
    "ctranslate2": lambda path: touch(CTranslate2Checkpoint(path)),
    "llama2c": lambda path: touch(Llama2cCheckpoint(path)),
}


@pytest.mark.parametrize("target", READERS)
def test_weights(target: str, tmp_path: Path, soak: bool) -> None:
    path = tmp_path / "damaged"

    def read(content: bytes) -> None:
        path.unlink(missing_ok=True)  # an earlier file may still be mapped
        path.write_bytes(content)
        READERS[target](path)

    fuzz(read, damaged(seeds(target)), soak)


@pytest.mark.parametrize("target", READERS)
def test_weights_opened_by_their_content(target: str, tmp_path: Path, soak: bool) -> None:
    path = tmp_path / "damaged"

    def read(content: bytes) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        try:
            checkpoint = open_checkpoint(path)
        except AntiphonError as error:
            assert str(path) in str(error)
        else:
            checkpoint.tensors()

    fuzz(read, damaged(seeds(target)), soak, share=0.25)


@pytest.mark.parametrize("target", READERS)
def test_whole_seeds_are_read(target: str, tmp_path: Path) -> None:
    """A seed that the reader rejects at once would fuzz nothing."""
    read = 0
    for number, content in enumerate(seeds(target)):
        path = tmp_path / str(number)
        path.write_bytes(content)
        try:
            READERS[target](path)
        except AntiphonError:
            continue
        read += 1
    assert read


def test_sound(soak: bool) -> None:
    limits = DecodeLimits(max_seconds=60.0)
    fuzz(lambda content: decode(content, limits=limits), damaged(seeds("sound")), soak)
    assert len(decode(seeds("sound")[0]).values) > 0
