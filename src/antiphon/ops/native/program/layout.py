"""Numbers of a recording's values in a native program."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program.dimension import Size, as_dim
from antiphon.ops.program.plan import BufferPlan
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Traced


class Layout:
    """Numbers of values: inputs, the output, buffers, then constants in the order of first use.

    A program must keep `constants`, which it reads by address, and `kept`, objects that it refers to, alive.
    """

    def __init__(self, recording: Recording, plan: BufferPlan) -> None:
        self._symbols = recording.symbols
        self._groups = recording.groups
        addressed = [*recording.inputs, *([] if recording.output is None else [recording.output])]
        self.num_addresses = len(addressed)
        self._numbers = {id(value): number for number, value in enumerate([*addressed, *plan.values])}
        self.constants: list[Tensor] = []
        self.kept: list[Any] = []

    def operand(self, tensor: Traced | None) -> tuple[int, int]:
        """Return (number of the value, offset in bytes), or (-1, 0) for None."""
        if tensor is None:
            return (-1, 0)
        value = tensor.value
        number = self._number(value, value.constant) if value.constant is not None else self._numbers[id(value)]
        return (number, tensor.offset * tensor.dtype.itemsize)

    def constant(self, tensor: Tensor) -> tuple[int, int]:
        """Return the operand of a tensor that the emitter made."""
        return (self._number(tensor, tensor), 0)

    def _number(self, key: object, constant: Tensor) -> int:
        number = self._numbers.get(id(key))
        if number is None:
            if not constant.is_cpu:
                raise UnrecordableError(f"a constant {tuple(constant.shape)} is on {constant.device}, not the CPU")
            number = self._numbers[id(key)] = len(self._numbers)
            self.constants.append(constant)
        return number

    def extent(self, size: Size) -> tuple[int, int, int, int]:
        """Return a size as (coefficient, symbol, symbol, constant); a missing symbol is -1."""
        dim = as_dim(size)
        return (dim.coefficient if dim.symbols else 0, *self.symbols(dim.symbols), dim.constant)

    def symbols(self, names: tuple[str, ...]) -> tuple[int, int]:
        """Return the numbers of up to two symbols, padded with -1."""
        numbers = [self._symbols.index(name) for name in names]
        first, second = (*numbers, -1, -1)[:2]
        return first, second

    def group(self, name: str) -> int:
        return self._groups.index(name)
