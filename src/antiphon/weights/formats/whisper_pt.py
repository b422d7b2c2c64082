"""OpenAI's Whisper checkpoints: a `.pt` file with `dims` and `model_state_dict`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import CheckpointError
from antiphon.regular_file import open_regular
from antiphon.weights.formats.ggml import DIMENSIONS
from antiphon.weights.formats.memory import StateDictCheckpoint

ZIP_MAGIC = b"PK\x03\x04"


class WhisperPtCheckpoint(StateDictCheckpoint):
    """A Whisper model under OpenAI's names. Only tensors and plain values are unpickled, never code."""

    def __init__(self, path: Path) -> None:
        content = _load(path)
        dims = content.get("dims")
        state_dict = content.get("model_state_dict")
        if not isinstance(dims, dict) or not isinstance(state_dict, dict):
            found = sorted(map(str, content))[:8]
            raise CheckpointError(f"{path}: has {found}, not Whisper's `dims` and `model_state_dict`")
        for key in DIMENSIONS:
            if type(dims.get(key)) is not int or dims[key] < 1:
                raise CheckpointError(f"{path}: dims[{key!r}] is {dims.get(key)!r}, not a positive integer")
        for name, tensor in state_dict.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                raise CheckpointError(f"{path}: model_state_dict[{name!r}] is not a tensor")
        super().__init__(state_dict, "whisper", {key: dims[key] for key in DIMENSIONS}, format="openai-whisper")


def _load(path: Path) -> dict[Any, Any]:
    try:
        with open_regular(path) as file, warnings.catch_warnings():
            mappable = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
            file.seek(0)
            warnings.simplefilter("ignore")
            # Mapping takes a path: the descriptor's, since its file was checked to be regular.
            source: Any = f"/dev/fd/{file.fileno()}" if mappable else file
            content = torch.load(source, map_location="cpu", weights_only=True, mmap=mappable)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # torch.load raises many kinds of error for a malformed file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path}: is not a PyTorch file of plain tensors: {reason}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: holds a {type(content).__name__}, not a dictionary")
    return content
