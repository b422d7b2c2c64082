"""`Checkpoint`: tensors and metadata from which a model is built, independent of their file format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import CheckpointError
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as stored in a file. `shape` is in PyTorch's order; `data` is flat uint8, read on access if mapped."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    data: Tensor

    @property
    def nbytes(self) -> int:
        return self.data.numel()


class Checkpoint:
    """Named tensors, and the metadata that a model's config is translated from.

    Models request tensors by their own names and the shape they need; a missing tensor or another shape raises a
    `CheckpointError` with the name. `unused()` returns the names of tensors that no model read.
    """

    #: "gguf", "hf", "llama2c", "openai-whisper", …: selects one of a model's translations of names and config.
    format: str
    #: GGUF's `general.architecture` or Hugging Face's `model_type`.
    architecture: str
    #: GGUF key-values, or the parsed `config.json`.
    metadata: Mapping[str, Any]
    _tensors: Mapping[str, StoredTensor]

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._maps: list[MappedFile] = []

    def tensors(self) -> Mapping[str, StoredTensor]:
        """Return all stored tensors by their name in the file."""
        return self._tensors

    def has(self, name: str) -> bool:
        return name in self.tensors()

    def stored(self, name: str, shape: tuple[int, ...] | None = None) -> StoredTensor:
        tensor = self.tensors().get(name)
        if tensor is None:
            raise CheckpointError(f"{self.architecture} checkpoint has no tensor {name!r}")
        if shape is not None and tensor.shape != shape:
            raise CheckpointError(f"tensor {name!r} has shape {list(tensor.shape)}, the model needs {list(shape)}")
        self._used.add(name)
        return tensor

    def weight(self, name: str, shape: tuple[int, int]) -> Weight:
        """Return a matrix in its stored form, without a copy."""
        tensor = self.stored(name, shape)
        rows, columns = shape
        data = tensor.data.view(rows, tensor.type.row_bytes(columns))
        return Weight((WeightPart(tensor.type, rows, data),), columns)

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Return a small tensor (norm, bias, convolution) decoded to floats, in its own memory."""
        tensor = self.stored(name, shape)
        return dequantize(tensor.data, tensor.type).view(shape).to(dtype)

    def release_pages(self) -> None:
        """Release the memory of mapped pages read so far; the tensors stay valid."""
        for mapped in self._maps:
            mapped.release_pages()

    def unused(self) -> list[str]:
        return sorted(set(self.tensors()) - self._used)
