"""`Source`: a checkpoint seen through a model's own tensor names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from torch import Tensor

from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.weight import Weight


class Source:
    """Names under a prefix, translated to the file's names on each access.

    `rename` maps a model's name to the file's. `row_order` returns, for a model's name, the order in which to read the
    file's rows, or None for the file's order; it serves files whose rotary layout is not half-split.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        rename: Callable[[str], str] | None = None,
        row_order: Callable[[str], Tensor | None] | None = None,
        prefix: str = "",
    ) -> None:
        self.checkpoint = checkpoint
        self._rename = rename or (lambda name: name)
        self._row_order = row_order or (lambda name: None)
        self._prefix = prefix

    def at(self, *names: str | int) -> Self:
        """Return the same checkpoint under a longer prefix."""
        prefix = self._prefix + "".join(f"{name}." for name in names)
        return type(self)(self.checkpoint, self._rename, self._row_order, prefix)

    def full_name(self, name: str) -> str:
        """Return the model's own name, including the prefix."""
        return self._prefix + name

    def has(self, name: str) -> bool:
        return self.checkpoint.has(self._rename(self._prefix + name))

    def weight(self, name: str, shape: tuple[int, int]) -> Weight:
        full = self._prefix + name
        weight = self.checkpoint.weight(self._rename(full), shape)
        order = self._row_order(full)
        return weight if order is None else weight.take_rows(order)

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        full = self._prefix + name
        tensor = self.checkpoint.tensor(self._rename(full), shape)
        order = self._row_order(full)
        return tensor if order is None else tensor[order]


class TensorNames:
    """A translation of model names to file names by patterns in which `{}` stands for a layer's number."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._exact = {name: target for name, target in patterns.items() if "{}" not in name}
        self._layered: dict[tuple[str, str], str] = {}
        for name, target in patterns.items():
            if "{}" in name:
                before, after = name.split("{}")
                self._layered[before, after] = target
        self._prefixes = {before for before, _ in self._layered}

    def __call__(self, name: str) -> str:
        if name in self._exact:
            return self._exact[name]
        for before in self._prefixes:
            if name.startswith(before):
                number, _, rest = name[len(before) :].partition(".")
                target = self._layered.get((before, "." + rest))
                if target is not None:
                    return target.format(number)
        return name
