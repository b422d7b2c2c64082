"""`AdapterTable`: the low-rank adapters of one linear layer, by slot. LoRA: arXiv:2106.09685."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class AdapterUp:
    """What an adapter adds to some rows of a layer's product: scale · up · (down · x)[offset : offset + rank]."""

    up: Weight  # [rows, rank]
    first: int  # of the product's rows
    offset: int
    scale: float


@dataclass(frozen=True)
class LayerAdapter:
    """One adapter's part in one layer. `down` has the rows of every `up`'s rank, end to end.

    A layer that fuses several (queries, keys and values) has an `up` for each of them that the adapter changes.
    """

    down: Weight  # [sum of ranks, columns]
    ups: tuple[AdapterUp, ...]

    @property
    def nbytes(self) -> int:
        return self.down.nbytes + sum(up.up.nbytes for up in self.ups)


class AdapterView(Protocol):
    """What a backend made of a table; it is told of every change."""

    def change(self, slot: int, layer: LayerAdapter | None) -> None: ...


class AdapterTable:
    """Adapters by slot; a slot that is missing leaves the layer as it is. Changed only between steps.

    `views` holds what backends made of the table, by backend name: recorded programs read them, so an adapter can be
    added or removed without recording a program again.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows  # of the layer's product
        self.layers: dict[int, LayerAdapter] = {}
        self.views: dict[str, AdapterView] = {}

    def set(self, slot: int, layer: LayerAdapter) -> None:
        for view in self.views.values():
            view.change(slot, layer)
        self.layers[slot] = layer

    def clear(self, slot: int) -> None:
        for view in self.views.values():
            view.change(slot, None)
        self.layers.pop(slot, None)
