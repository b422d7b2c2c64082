"""`Traced`, the stand-in for a tensor while a model is recorded, with a shape and strides but no contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program.dimension import Dim, Size, product, same, same_shape, shape_text


class Kind(StrEnum):
    INPUT = "input"
    BUFFER = "buffer"
    CONSTANT = "constant"
    TABLES = "tables"  # block tables and slots of a cache group, read by operations on the group


@dataclass(eq=False)
class Value:
    """Memory region that a program reads or writes."""

    kind: Kind
    name: str
    shape: tuple[Size, ...]
    dtype: torch.dtype
    constant: Tensor | None = None
    #: Number of rows that a constant's memory has, if the forward slices it to a symbolic size; else 0.
    most_rows: int = 0

    @property
    def size(self) -> Size:
        return product(self.shape)


def contiguous_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(step)
        step = size if isinstance(step, int) and step == 1 else step * size
    return tuple(reversed(strides))


def _unrecordable(name: str) -> Any:
    def refuse(self: Traced, *_: Any, **__: Any) -> NoReturn:
        raise UnrecordableError(f"the forward calls {name} on a tensor {self.text}, outside ops and views")

    return refuse


@dataclass(frozen=True, eq=False)
class Traced:
    """View of a value. Offset and strides count elements, as a tensor's do."""

    value: Value
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: int = 0

    @classmethod
    def whole(cls, value: Value) -> Traced:
        return cls(value, value.shape, contiguous_strides(value.shape))

    @property
    def text(self) -> str:
        return shape_text(self.shape)

    # -- attributes of a tensor ---------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        return self.value.dtype

    def dim(self) -> int:
        return len(self.shape)

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def is_contiguous(self) -> bool:
        return same_shape(self.strides, contiguous_strides(self.shape))

    def float(self) -> Traced:
        return self if self.dtype is torch.float32 else _unrecordable("float")(self)

    def contiguous(self) -> Traced:
        return self if self.is_contiguous() else _unrecordable("contiguous")(self)

    # -- views --------------------------------------------------------------------------------------------------

    def _dim(self, dim: int) -> int:
        if not -len(self.shape) <= dim < len(self.shape):
            raise IndexError(f"dimension {dim} of {self.text}")
        return dim % len(self.shape)

    def _with(self, shape: Sequence[Size], strides: Sequence[Size], offset: int | None = None) -> Traced:
        return replace(
            self, shape=tuple(shape), strides=tuple(strides), offset=self.offset if offset is None else offset
        )

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Traced:
        dim = self._dim(dim)
        whole, known = self.shape[dim], 1
        for size in sizes:
            known *= 1 if size == -1 else size
        if isinstance(whole, Dim) or whole % known or (-1 not in sizes and whole != known):
            raise UnrecordableError(f"{self.text} cannot be unflattened to {tuple(sizes)} in dimension {dim}")
        inner = [whole // known if size == -1 else size for size in sizes]
        strides = [step * self.strides[dim] for step in contiguous_strides(inner)]
        return self._with(
            [*self.shape[:dim], *inner, *self.shape[dim + 1 :]],
            [*self.strides[:dim], *strides, *self.strides[dim + 1 :]],
        )

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Traced:
        first, last = self._dim(start_dim), self._dim(end_dim)
        for dim in range(first, last):
            if not same(self.strides[dim], self.strides[dim + 1] * self.shape[dim + 1]):
                raise UnrecordableError(f"{self.text} is not contiguous: flattening it would copy it")
        return self._with(
            [*self.shape[:first], product(self.shape[first : last + 1]), *self.shape[last + 1 :]],
            [*self.strides[:first], self.strides[last], *self.strides[last + 1 :]],
        )

    def transpose(self, first: int, second: int) -> Traced:
        first, second = self._dim(first), self._dim(second)
        shape, strides = list(self.shape), list(self.strides)
        for sizes in (shape, strides):
            sizes[first], sizes[second] = sizes[second], sizes[first]
        return self._with(shape, strides)

    def unsqueeze(self, dim: int) -> Traced:
        dim %= len(self.shape) + 1
        step: Size = 1 if dim == len(self.shape) else self.strides[dim] * self.shape[dim]
        return self._with([*self.shape[:dim], 1, *self.shape[dim:]], [*self.strides[:dim], step, *self.strides[dim:]])

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Traced, ...]:
        dim = self._dim(dim)
        whole = self.shape[dim]
        if isinstance(whole, Dim):
            raise UnrecordableError(f"{self.text} is split in dimension {dim}, whose size changes from step to step")
        if isinstance(sizes, int):
            sizes = [min(sizes, whole - start) for start in range(0, whole, sizes)]
        if sum(sizes) != whole:
            raise ValueError(f"{self.text} cannot be split into {list(sizes)}")
        parts, start = [], 0
        for size in sizes:
            parts.append(self._slice(dim, start, size))
            start += size
        return tuple(parts)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Traced, ...]:
        whole = self.shape[self._dim(dim)]
        return self.split(-(-int(whole) // chunks) if isinstance(whole, int) else 0, dim)

    def _slice(self, dim: int, start: int, size: Size) -> Traced:
        step = self.strides[dim]
        if start and isinstance(step, Dim):
            raise UnrecordableError(f"{self.text} is cut at {start} in dimension {dim}, whose stride changes")
        shape = [*self.shape[:dim], size, *self.shape[dim + 1 :]]
        return self._with(shape, self.strides, self.offset + (start * step if start else 0))  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Traced:
        """Return a view by integers and slices without steps; negative indices and slice starts need a known size."""
        indices = list(index) if isinstance(index, tuple) else [index]
        if Ellipsis in [i for i in indices if not isinstance(i, Traced)]:
            position = indices.index(Ellipsis)
            indices[position : position + 1] = [slice(None)] * (len(self.shape) - len(indices) + 1)
        view, dim = self, 0
        for item in indices:
            if isinstance(item, slice):
                view, dim = view._sliced(dim, item), dim + 1
            elif isinstance(item, int):
                size = view.shape[dim]
                if isinstance(size, Dim) and item < 0:
                    raise UnrecordableError(f"{view.text} is indexed from its end, which changes from step to step")
                taken = view._slice(dim, item if isinstance(size, Dim) else item % size, 1)
                view = taken._with(
                    [*taken.shape[:dim], *taken.shape[dim + 1 :]], [*taken.strides[:dim], *taken.strides[dim + 1 :]]
                )
            else:
                raise UnrecordableError(f"{self.text} is indexed with {type(item).__name__}, which is no view")
        return view

    def _sliced(self, dim: int, item: slice) -> Traced:
        size, start, stop = self.shape[dim], item.start or 0, item.stop
        if item.step not in (None, 1) or isinstance(start, Dim):
            raise UnrecordableError(f"{self.text} is sliced with {item}")
        if not isinstance(size, Dim):
            if isinstance(stop, Dim):
                raise UnrecordableError(f"{self.text} is cut to {stop}, which changes from step to step")
            begin, end, _ = item.indices(size)
            return self._slice(dim, begin, max(end - begin, 0))
        if start < 0:
            raise UnrecordableError(f"{self.text} is sliced from its end, which changes from step to step")
        if stop is None or (isinstance(stop, Dim) and stop == size):
            return self._slice(dim, start, size - start)
        if isinstance(stop, int) and stop < 0:
            return self._slice(dim, start, size + (stop - start))
        raise UnrecordableError(f"{self.text} is cut to {stop}: how much that is changes from step to step")

    # -- everything else ----------------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise UnrecordableError(f"the forward calls {getattr(func, '__name__', func)}, outside ops and views")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnrecordableError(f"the forward takes .{name} of a tensor, outside ops and views")

    __len__ = _unrecordable("len")
    __iter__ = _unrecordable("iter")
    __bool__ = _unrecordable("bool")
    __float__ = __int__ = __index__ = _unrecordable("a number's conversion")
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unrecordable("arithmetic")
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __neg__ = _unrecordable("arithmetic")
    __lt__ = __le__ = __gt__ = __ge__ = _unrecordable("a comparison")
    __setitem__ = _unrecordable("an assignment")
