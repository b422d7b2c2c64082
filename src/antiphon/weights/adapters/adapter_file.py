"""`AdapterFile`: the low-rank matrices of a LoRA adapter, independent of their file format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from torch import Tensor

from antiphon.counted import counted
from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.checkpoint import StoredTensor
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

#: Maximum rank; published adapters have 4 to 256.
MAX_RANK = 4096

#: Tensor types that cannot hold weights.
WHOLE_NUMBERS = frozenset({TensorType.I8, TensorType.I16, TensorType.I32, TensorType.I64})


@dataclass(frozen=True)
class LowRank:
    """The update of one linear layer by an adapter, scale · up · down, and the names of its tensors in the file."""

    down: Weight  # [rank, inputs]
    up: Weight  # [outputs, rank]
    scale: float
    down_name: str
    up_name: str

    @property
    def rank(self) -> int:
        return self.down.rows


@dataclass(frozen=True)
class AdapterFile:
    """An adapter's matrices by linear layer, named as in the file's format."""

    path: Path
    format: str  # "peft" or "gguf"
    layers: Mapping[str, LowRank]
    #: GGUF's `general.architecture`; None for PEFT, which states none.
    architecture: str | None = None

    @property
    def nbytes(self) -> int:
        return sum(layer.down.nbytes + layer.up.nbytes for layer in self.layers.values())

    def digest(self) -> bytes:
        """Return a digest that is equal for adapters with equal results."""
        digest = blake2b(digest_size=16)
        for name, layer in sorted(self.layers.items()):
            digest.update(f"{name}\0{layer.rank}\0{layer.scale!r}\0".encode())
            for weight in (layer.down, layer.up):
                for part in weight.parts:
                    digest.update(part.type.name.encode())
                    digest.update(part.data.numpy().tobytes())
        return digest.digest()


def matrix(tensor: StoredTensor, path: Path) -> Weight:
    """Return a tensor of an adapter as a weight with its own memory: the file may change while the weight is in use."""
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise CheckpointError(f"{path}: tensor {tensor.name!r} has shape {list(tensor.shape)}, not that of a matrix")
    if tensor.type in WHOLE_NUMBERS:
        raise UnsupportedError(f"{path}: tensor {tensor.name!r} has the type {tensor.type.name}, not one of weights")
    rows, columns = tensor.shape
    if tensor.type is TensorType.F64:
        return Weight.from_tensor(dequantize(tensor.data, tensor.type).view(rows, columns).float().clone())
    data = tensor.data.clone().view(rows, tensor.type.row_bytes(columns))
    return Weight((WeightPart(tensor.type, rows, data),), columns)


def low_rank(
    tensors: Mapping[str, StoredTensor], down_name: str, up_name: str, scale: Callable[[int], float], path: Path
) -> LowRank:
    """Return the matrices of a layer, with matching ranks; `scale` returns the factor of their product for a rank."""
    down, up = matrix(tensors[down_name], path), matrix(tensors[up_name], path)
    if down.rows != up.columns:
        raise CheckpointError(
            f"{path}: {down_name!r} has shape {list(down.shape)} and {up_name!r} {list(up.shape)}: "
            f"their ranks are {down.rows} and {up.columns}"
        )
    if down.rows > MAX_RANK:
        raise UnsupportedError(f"{path}: {down_name!r} has rank {down.rows}; at most {MAX_RANK} is supported")
    return LowRank(down, up, scale(down.rows), down_name, up_name)


def check_finite(values: Tensor, name: str, path: Path) -> None:
    """Reject a matrix with NaN or infinite values, which would make every output meaningless."""
    wrong = int(values.numel() - values.isfinite().sum())
    if wrong:
        raise CheckpointError(f"{path}: tensor {name!r} has {counted(wrong, 'value')} of NaN or infinity")


def check_complete(found: Iterable[str], other: Iterable[str], kinds: tuple[str, str], path: Path) -> None:
    """Reject an adapter that has one matrix of a layer without the other; `kinds` names both for the error."""
    for has, lacks, kind in ((set(found), set(other), kinds[1]), (set(other), set(found), kinds[0])):
        missing = sorted(has - lacks)
        if missing:
            raise CheckpointError(f"{path}: {missing[0]!r} has no {kind}")
