"""A checkpoint is recognised by its content; what is not one is rejected with a helpful message."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from antiphon.errors import AntiphonError, CheckpointError, ModelNotFoundError, UnsupportedError
from antiphon.weights.formats.memory import StateDictCheckpoint
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.formats.whisper_pt import DIMENSIONS
from antiphon.weights.types import TensorType


@pytest.mark.parametrize("name", ["model.gguf", "model.bin", "model.safetensors", "model"])
def test_gguf_by_any_name(tmp_path: Path, sample_gguf: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(sample_gguf.read_bytes())
    assert open_checkpoint(path).format == "gguf"


def test_llama2c(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    floats = 4 * 4 + 2 * 4 + 4 * 4 * 4 + 3 * 4 * 4 + 4 + 4 * 4
    path.write_bytes(struct.pack("<7i", 4, 4, 1, 1, 1, 4, 4) + bytes(4 * floats))
    assert open_checkpoint(path).format == "llama2c"


def test_whisper(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    torch.save({"dims": dict.fromkeys(DIMENSIONS, 1), "model_state_dict": {}}, path)
    assert open_checkpoint(path).format == "openai-whisper"


def test_safetensors_by_folder_and_by_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match=r"safetensors without a config.json beside it"):
        open_checkpoint(path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert open_checkpoint(tmp_path).has("w") and open_checkpoint(path).has("w")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", CheckpointError, r"is empty \(0 bytes\)"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
            CheckpointError,
            "is a Git LFS pointer, not the file",
        ),
        (b"<!DOCTYPE html><html></html>", UnsupportedError, "is a web page"),
        (b"lmgg" + bytes(60), CheckpointError, "n_vocab is 0"),
        (b"FUGG" + bytes(60), UnsupportedError, "big-endian"),
        (b"\x89PNG\r\n\x1a\n" + bytes(60), CheckpointError, r"68 bytes, starting with .*PNG.* is not GGUF"),
        (b"hello", CheckpointError, "5 bytes, starting with b'hello'"),
        (b"PK\x03\x04" + bytes(60), CheckpointError, "not a PyTorch file"),
        (b"\x80\x02}q\x00.", CheckpointError, "model.gguf"),
        (struct.pack("<Ii", 0x616B3432, 1), UnsupportedError, "version 1"),
    ],
)
def test_what_is_rejected(tmp_path: Path, content: bytes, error: type[AntiphonError], message: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(error, match=message):
        open_checkpoint(path)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is a folder without config.json"):
        open_checkpoint(tmp_path)
    with pytest.raises(ModelNotFoundError, match="there is no file or folder"):
        open_checkpoint(tmp_path / "absent")


def test_checkpoint_in_memory() -> None:
    matrix = torch.randn(4, 6)
    state = {"w": matrix, "t": matrix.t(), "h": matrix.half(), "s": torch.tensor(3.0), "ids": torch.arange(3)}
    checkpoint = StateDictCheckpoint(state, "llama", {"hidden_size": 6})
    assert (checkpoint.format, checkpoint.architecture, checkpoint.metadata["hidden_size"]) == ("hf", "llama", 6)
    assert torch.equal(checkpoint.tensor("t", (6, 4)), matrix.t())
    assert checkpoint.tensor("s", ()).item() == 3
    assert checkpoint.stored("ids").type is TensorType.I64
    weight = checkpoint.weight("w", (4, 6))
    assert weight.parts[0].data.data_ptr() == matrix.data_ptr()
    assert checkpoint.unused() == ["h"]
    with pytest.raises(UnsupportedError, match=r"'b' has the type torch.bool"):
        StateDictCheckpoint({"b": torch.ones(1, dtype=torch.bool)}, "llama", {})
