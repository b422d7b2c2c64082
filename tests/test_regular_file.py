"""Model files that are FIFOs, sockets or folders are rejected; nobody waits for a writer."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import AntiphonError
from antiphon.regular_file import open_regular, read_regular
from antiphon.runtime.loading.adapter_names import adapter_file_bytes
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tokenization.llama2c_vocab import tokenizer_from_llama2c
from antiphon.text.tokenization.whisper_vocab import tokens_from_json, tokens_from_tiktoken
from antiphon.weights.adapters.open import open_adapter
from antiphon.weights.catalog.model_files import sniff_format
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.formats.safetensors import SafetensorsFile
from antiphon.weights.formats.whisper_pt import WhisperPtCheckpoint
from antiphon.weights.json_object import read_json
from antiphon.weights.mapped import MappedFile

READERS: dict[str, Callable[[Path], Any]] = {
    "a mapped file": MappedFile,
    "JSON": read_json,
    "safetensors": SafetensorsFile,
    "a checkpoint": open_checkpoint,
    "a Whisper checkpoint": WhisperPtCheckpoint,
    "a format": sniff_format,
    "a model": lambda path: resolve(str(path), offline=True),
    "an adapter": open_adapter,
    "an adapter's folder": lambda path: open_adapter(path.parent),
    "a tokenizer": tokenizer_from_file,
    "a tokenizer of llama2.c": lambda path: tokenizer_from_llama2c(path, 100),
    "tokens": tokens_from_json,
    "tokens of tiktoken": tokens_from_tiktoken,
}


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "adapter_config.json"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", READERS)
def test_a_fifo_without_a_writer_is_an_error(name: str, fifo: Path) -> None:
    with pytest.raises(AntiphonError) as caught:
        READERS[name](fifo)
    assert str(fifo) in str(caught.value) or "FIFO" in str(caught.value)


def test_only_regular_files_are_opened(tmp_path: Path, fifo: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "file") == read_regular(str(tmp_path / "link")) == b"content"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(IsADirectoryError):
            open_regular(tmp_path)
        for path, kind in ((fifo, "a FIFO"), (Path("/dev/zero"), "a device")):
            with pytest.raises(OSError, match=f"it is {kind}, not a regular file"):
                open_regular(path)
        with pytest.raises(OSError, match="socket"):
            open_regular(tmp_path / "socket")
    assert adapter_file_bytes(fifo) == 0
