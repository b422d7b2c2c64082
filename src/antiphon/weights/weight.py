"""`Weight`: a matrix in the form of its file, as row-concatenated parts of possibly different types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from antiphon.weights.types import TYPE_OF_DTYPE, TensorType


@dataclass(frozen=True)
class WeightPart:
    """Consecutive rows of one type. `data` is contiguous uint8 [rows, row_bytes], often a view of a mapped file."""

    type: TensorType
    rows: int
    data: Tensor


@dataclass
class Weight:
    """A matrix [rows, columns] of row-concatenated parts; only `ops` reads its contents.

    `packed` holds the forms that backends made of the parts, by backend name. A backend that no longer needs the parts'
    bytes may call `release_parts`; only its packed form is then left.
    """

    parts: tuple[WeightPart, ...]
    columns: int
    packed: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in self.parts:
            expected = (part.rows, part.type.row_bytes(self.columns))
            if tuple(part.data.shape) != expected or part.data.dtype != torch.uint8:
                raise ValueError(
                    f"a {part.type.name} part is {tuple(part.data.shape)} {part.data.dtype}, not uint8 {expected}"
                )
        self.rows = sum(part.rows for part in self.parts)
        #: Bytes of the weight in its file's form.
        self.nbytes = sum(part.data.numel() for part in self.parts)
        self.bytes_by_type = {part.type.name: 0 for part in self.parts}
        for part in self.parts:
            self.bytes_by_type[part.type.name] += part.data.numel()

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.columns)

    @property
    def resident_bytes(self) -> int:
        """Bytes of the form used in computation: the backend's packed form if there is one, else the file's."""
        packed = sum(getattr(value, "nbytes", 0) for value in self.packed.values())
        return packed or self.nbytes

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> Weight:
        """Build a weight from a float matrix [rows, columns], without a copy if it is contiguous."""
        if tensor.dim() != 2 or tensor.dtype not in TYPE_OF_DTYPE:
            raise ValueError(f"a weight needs a float matrix, not {tensor.dtype} of shape {tuple(tensor.shape)}")
        data = tensor.contiguous().view(torch.uint8)
        return cls((WeightPart(TYPE_OF_DTYPE[tensor.dtype], tensor.shape[0], data),), tensor.shape[1])

    @classmethod
    def concatenate(cls, weights: Iterable[Weight]) -> Weight:
        """Build a weight with the rows of all weights in order; no bytes are copied."""
        weights = list(weights)
        columns = {weight.columns for weight in weights}
        if len(columns) != 1:
            raise ValueError(f"weights to concatenate have different numbers of columns: {sorted(columns)}")
        return cls(tuple(part for weight in weights for part in weight.parts), columns.pop())

    def take_rows(self, index: Tensor) -> Weight:
        """Return a weight of the given rows in the given order, copied in their encoded form; needs a single part."""
        if len(self.parts) != 1:
            raise ValueError(f"rows can be taken from a weight of one part, not {len(self.parts)}")
        part = self.parts[0]
        return Weight((WeightPart(part.type, len(index), part.data[index].contiguous()),), self.columns)

    def release_parts(self) -> None:
        """Drop the file's bytes. Shape, sizes and types stay; only packed forms can be used afterwards."""
        self.parts = ()
