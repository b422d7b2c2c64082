"""Opening of a checkpoint by its content, independent of the file's name."""

from __future__ import annotations

import os
from pathlib import Path

from antiphon.errors import CheckpointError, ModelNotFoundError, UnsupportedError
from antiphon.regular_file import open_regular
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.formats import ctranslate2, ggml, gguf, llama2c, safetensors, whisper_pt
from antiphon.weights.formats.ctranslate2 import CTranslate2Checkpoint
from antiphon.weights.formats.ggml import GgmlWhisperCheckpoint
from antiphon.weights.formats.gguf import GGUFCheckpoint
from antiphon.weights.formats.llama2c import Llama2cCheckpoint, Llama2cHeader
from antiphon.weights.formats.onnx import OnnxCheckpoint, is_onnx
from antiphon.weights.formats.safetensors import SafetensorsCheckpoint
from antiphon.weights.formats.silero import open_silero
from antiphon.weights.formats.whisper_pt import WhisperPtCheckpoint

LFS_POINTER = b"version https://git-lfs"
PICKLE_MAGIC = b"\x80"

#: Descriptions of unsupported files by their first bytes, for the error message.
FOREIGN = {
    b"tjgg": "a GGJT file of the time before GGUF",
    b"FUGG": "a big-endian GGUF file",
    b"<!DOCTYPE": "a web page: the download was answered with one",
    b"<html": "a web page: the download was answered with one",
}


def open_checkpoint(path: Path) -> Checkpoint:
    """Open the checkpoint in a file, or in a folder with `config.json` and safetensors."""
    if path.is_dir():
        if not (path / safetensors.CONFIG_NAME).exists():
            raise CheckpointError(f"{path} is a folder without {safetensors.CONFIG_NAME}")
        return SafetensorsCheckpoint(path)
    try:
        with open_regular(path) as file:
            start = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise ModelNotFoundError(f"there is no file or folder {path}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    if not start:
        raise CheckpointError(f"{path} is empty (0 bytes)")
    if start.startswith(LFS_POINTER):
        raise CheckpointError(f"{path} is a Git LFS pointer, not the file: fetch the content with `git lfs pull`")
    if start.startswith(gguf.MAGIC):
        return GGUFCheckpoint(path)
    if start.startswith(ggml.MAGIC):
        return GgmlWhisperCheckpoint(path)
    if ctranslate2.is_ctranslate2(start):
        return CTranslate2Checkpoint(path)
    if start.startswith((whisper_pt.ZIP_MAGIC, PICKLE_MAGIC)):
        return WhisperPtCheckpoint(path)
    if _is_safetensors(start, size):
        if not (path.parent / safetensors.CONFIG_NAME).exists():
            voice_activity = open_silero(path)
            if voice_activity is not None:
                return voice_activity
            raise CheckpointError(f"{path} is safetensors without a {safetensors.CONFIG_NAME} beside it")
        return SafetensorsCheckpoint(path.parent)
    if is_onnx(start):
        return OnnxCheckpoint(path)
    if int.from_bytes(start[:4], "little") == llama2c.LATER_MAGIC or Llama2cHeader.parse(start) is not None:
        return Llama2cCheckpoint(path)
    for magic, what in FOREIGN.items():
        if start.startswith(magic):
            raise UnsupportedError(f"{path} is {what}")
    raise CheckpointError(
        f"{path} ({size} bytes, starting with {start[:8]!r}) is not GGUF, safetensors, "
        "a llama2.c checkpoint or a Whisper file (.pt, ggml or CTranslate2)"
    )


def _is_safetensors(start: bytes, size: int) -> bool:
    length = int.from_bytes(start[:8], "little")
    return start[8:9] == b"{" and length <= size - 8
