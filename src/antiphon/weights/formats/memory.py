"""Checkpoints of PyTorch tensors in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.types import TYPE_OF_DTYPE, TensorType

STORABLE: dict[torch.dtype, TensorType] = TYPE_OF_DTYPE | {
    torch.float64: TensorType.F64,
    torch.int8: TensorType.I8,
    torch.int16: TensorType.I16,
    torch.int32: TensorType.I32,
    torch.int64: TensorType.I64,
}


class StateDictCheckpoint(Checkpoint):
    """Tensors by name, with the metadata of a config. Contiguous tensors are not copied."""

    def __init__(
        self, state_dict: Mapping[str, Tensor], architecture: str, metadata: Mapping[str, Any], format: str = "hf"
    ) -> None:
        super().__init__()
        self.format = format
        self.architecture = architecture
        self.metadata = metadata
        self._tensors = {name: _stored(name, tensor) for name, tensor in state_dict.items()}


def _stored(name: str, tensor: Tensor) -> StoredTensor:
    type = STORABLE.get(tensor.dtype)
    if type is None:
        raise UnsupportedError(f"tensor {name!r} has the type {tensor.dtype}, which cannot be loaded")
    data = tensor.detach().contiguous().view(-1).view(torch.uint8)
    return StoredTensor(name, type, tuple(tensor.shape), data)
