"""Lengths of prompts and answers: a distribution of whole numbers, parsed from a short text."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

from antiphon.errors import InvalidRequestError

Shape = Literal["fixed", "uniform", "normal", "lognormal"]
FORMS = "128, 64:256 (uniform), normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA"
MAX_TOKENS = 1_000_000


@dataclass(frozen=True)
class Lengths:
    """Distribution of lengths, clipped to 1 to `MAX_TOKENS`."""

    shape: Shape
    first: float
    second: float = 0.0

    @staticmethod
    def parse(text: str, option: str) -> Lengths:
        """Parse a distribution in a form of `FORMS`; raise an error that names the option otherwise."""
        head, *rest = text.split(":")
        shape: Shape
        if head in ("normal", "lognormal"):
            shape, numbers = ("normal" if head == "normal" else "lognormal"), rest
        else:
            shape, numbers = ("uniform" if rest else "fixed"), [head, *rest]
        try:
            values = [float(number) if shape.endswith("normal") else int(number) for number in numbers]
        except ValueError:
            values = []
        if len(values) != (1 if shape == "fixed" else 2) or not all(math.isfinite(value) for value in values):
            raise InvalidRequestError(f"{option} is {text!r}; it is one of {FORMS}")
        lengths = Lengths(shape, *values)
        if not 1 <= lengths.first <= MAX_TOKENS:
            raise InvalidRequestError(f"{option} is {text!r}; lengths are 1 to {MAX_TOKENS:,}")
        if shape == "uniform" and not lengths.first <= lengths.second <= MAX_TOKENS:
            raise InvalidRequestError(f"{option} is {text!r}; the first length is the smaller one")
        if lengths.second < 0:
            raise InvalidRequestError(f"{option} is {text!r}; the spread is not negative")
        return lengths

    def draw(self, source: random.Random) -> int:
        if self.shape == "fixed":
            return int(self.first)
        if self.shape == "uniform":
            return source.randint(int(self.first), int(self.second))
        if self.shape == "normal":
            value = source.normalvariate(self.first, self.second)
        else:
            value = math.exp(min(source.normalvariate(math.log(self.first), self.second), 50.0))
        return min(max(1, round(value)), MAX_TOKENS)

    def __str__(self) -> str:
        if self.shape == "fixed":
            return f"{self.first:g}"
        pair = f"{self.first:g}:{self.second:g}"
        return pair if self.shape == "uniform" else f"{self.shape}:{pair}"
