"""Sizes that are not known while a model is recorded: tokens, requests, logit rows, and products of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from antiphon.errors import UnrecordableError

MAX_SYMBOLS = 2


@dataclass(frozen=True, eq=False)
class Dim:
    """coefficient * symbols * ... + constant. While recording it has the value `sample` where a number is needed.

    A forward may multiply it, add to it and slice constants with it. A decision by it would make the recording wrong.
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
        """Whether it has no constant: a multiple of its symbols."""
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
        """Exact in the symbols: 2 S - 1 divided by 2 is S - 1."""
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
    """Whether two sizes are the same whatever the symbols are."""
    if isinstance(first, Dim) or isinstance(second, Dim):
        return isinstance(first, Dim) and isinstance(second, Dim) and first == second
    return first == second


def same_shape(first: Sequence[Size], second: Sequence[Size]) -> bool:
    return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))


def as_dim(size: Size) -> Dim:
    return size if isinstance(size, Dim) else Dim(0, (), size, size)


def shape_text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"
