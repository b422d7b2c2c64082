"""Sizes that are unknown while a model is recorded: tokens, requests, logit rows, and products of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from antiphon.errors import UnrecordableError

MAX_SYMBOLS = 2


@dataclass(frozen=True, eq=False)
class Dim:
    """Size coefficient * symbols * ... + constant. While recording, `sample` stands in where a number is needed.

    A forward may multiply a size, add to it and slice constants with it. A comparison is rejected: the recording would
    hold for some sizes only.
    """

    coefficient: int
    symbols: tuple[str, ...]  # sorted
    constant: int
    sample: int

    @classmethod
    def symbol(cls, name: str, sample: int) -> Dim:
        return cls(1, (name,), 0, sample)

    @property
    def is_pure(self) -> bool:
        """Whether the constant is 0, so that the size is a multiple of its symbols."""
        return self.constant == 0

    def __index__(self) -> int:
        return self.sample

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.key == other.key
        self._refuse("compares")

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[int, tuple[str, ...], int]:
        return (self.coefficient, self.symbols, self.constant)

    def __mul__(self, other: Size) -> Dim:
        if isinstance(other, Dim):
            symbols = tuple(sorted(self.symbols + other.symbols))
            if not (self.is_pure and other.is_pure) or len(symbols) > MAX_SYMBOLS:
                raise UnrecordableError(f"the size ({self}) * ({other}) is not a product of {MAX_SYMBOLS} counts")
            return Dim(self.coefficient * other.coefficient, symbols, 0, self.sample * other.sample)
        return Dim(self.coefficient * other, self.symbols, self.constant * other, self.sample * other)

    __rmul__ = __mul__

    def __add__(self, other: int) -> Dim:
        return Dim(self.coefficient, self.symbols, self.constant + other, self.sample + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self + -other

    def __floordiv__(self, other: int) -> Dim:
        """Divide the coefficient exactly and round the constant down: (2 S - 1) // 2 is S - 1."""
        if self.coefficient % other:
            raise UnrecordableError(f"the size {self} is not a multiple of {other}")
        return Dim(self.coefficient // other, self.symbols, self.constant // other, self.sample // other)

    def _refuse(self, what: str) -> NoReturn:
        raise UnrecordableError(f"the forward {what} the size {self}, which changes from step to step")

    def __bool__(self) -> bool:
        self._refuse("decides by")

    def __lt__(self, other: object) -> bool:
        self._refuse("compares")

    __le__ = __gt__ = __ge__ = __lt__

    def value(self, symbols: Mapping[str, int]) -> int:
        product = self.coefficient
        for symbol in self.symbols:
            product *= symbols[symbol]
        return product + self.constant

    def __str__(self) -> str:
        if not self.symbols:
            return str(self.coefficient + self.constant)
        factor = "" if self.coefficient == 1 else f"{self.coefficient}"
        return f"{factor}{''.join(self.symbols)}" + (f"{self.constant:+d}" if self.constant else "")


Size = int | Dim


def product(sizes: Sequence[Size]) -> Size:
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def same(first: Size, second: Size) -> bool:
    """Return whether two sizes are equal for all values of their symbols."""
    if isinstance(first, Dim) or isinstance(second, Dim):
        return isinstance(first, Dim) and isinstance(second, Dim) and first == second
    return first == second


def same_shape(first: Sequence[Size], second: Sequence[Size]) -> bool:
    return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))


def as_dim(size: Size) -> Dim:
    return size if isinstance(size, Dim) else Dim(0, (), size, size)


def shape_text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"
