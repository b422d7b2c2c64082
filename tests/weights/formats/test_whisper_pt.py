"""OpenAI Whisper files: what they hold, and that nothing in them runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.formats.whisper_pt import DIMENSIONS, WhisperPtCheckpoint
from antiphon.weights.types import TensorType

DIMS = {name: index + 2 for index, name in enumerate(DIMENSIONS)}


def content(**tensors: torch.Tensor) -> dict[str, Any]:
    state = {"encoder.ln_post.weight": torch.arange(6.0).half(), "decoder.token_embedding.weight": torch.randn(4, 3)}
    return {"dims": DIMS, "model_state_dict": state | tensors}


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_tensors_and_dimensions(tmp_path: Path, legacy: bool) -> None:
    path = tmp_path / "tiny.pt"
    saved = content(transposed=torch.randn(3, 5).t())
    torch.save(saved, path, _use_new_zipfile_serialization=not legacy)
    checkpoint = WhisperPtCheckpoint(path)
    assert (checkpoint.format, checkpoint.architecture, checkpoint.metadata) == ("openai-whisper", "whisper", DIMS)
    assert checkpoint.stored("encoder.ln_post.weight").type is TensorType.F16
    for name, tensor in saved["model_state_dict"].items():
        assert torch.equal(checkpoint.tensor(name, tuple(tensor.shape)), tensor.float())


class Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_pickle_with_code_is_rejected_and_does_not_run(tmp_path: Path, legacy: bool) -> None:
    path, target = tmp_path / "evil.pt", tmp_path / "owned"
    torch.save(content() | {"extra": Payload(target)}, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(CheckpointError, match="not a PyTorch file of plain tensors"):
        WhisperPtCheckpoint(path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([1, 2], "holds a list, not a dictionary"),
        ({"weights": 1}, r"has \['weights'\], not Whisper's"),
        ({"dims": {}, "model_state_dict": {}}, r"dims\['n_vocab'\] is None"),
        ({"dims": DIMS | {"n_vocab": 0}, "model_state_dict": {}}, r"dims\['n_vocab'\] is 0"),
        ({"dims": DIMS, "model_state_dict": {"w": 3}}, r"model_state_dict\['w'\] is not a tensor"),
    ],
)
def test_other_content_is_rejected(tmp_path: Path, saved: Any, message: str) -> None:
    torch.save(saved, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=message):
        WhisperPtCheckpoint(tmp_path / "other.pt")


def test_unreadable_types_are_named(tmp_path: Path) -> None:
    torch.save(content(mask=torch.ones(2, dtype=torch.bool)), tmp_path / "mask.pt")
    with pytest.raises(UnsupportedError, match=r"'mask' has the type torch.bool"):
        WhisperPtCheckpoint(tmp_path / "mask.pt")


def test_truncated_and_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "tiny.pt"
    torch.save(content(), path)
    whole = path.read_bytes()
    for length in (0, 3, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"tiny\.pt"):
            WhisperPtCheckpoint(path)
    with pytest.raises(CheckpointError, match="cannot read"):
        WhisperPtCheckpoint(tmp_path / "absent.pt")


@pytest.mark.weights
def test_whisper_tiny_en(model_path: Callable[[str], Path]) -> None:
    checkpoint = WhisperPtCheckpoint(model_path("whisper-tiny.en"))
    assert checkpoint.metadata["n_audio_state"] == 384 and checkpoint.metadata["n_vocab"] == 51_864
    assert sum(tensor.nbytes for tensor in checkpoint.tensors().values()) // 2 == 37_760_256
