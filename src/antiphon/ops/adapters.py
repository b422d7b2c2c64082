"""`AdapterTable`: the low-rank adapters of one linear layer, by slot. LoRA: arXiv:2106.09685."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class AdapterUp:
    """What an adapter adds to rows `first` to `first` + width of a layer's product: (down · x)[offset:][:rank] · rows.

    `rows` is the transposed up matrix with the adapter's scale in it: one token needs it as sums of whole rows.
    """

    rows: Tensor  # fp32 [rank, width], contiguous
    first: int
    offset: int


@dataclass(frozen=True)
class LayerAdapter:
    """One adapter's part in one layer. `down` has the rows of every `up`'s rank, end to end.

    A layer that fuses several (queries, keys and values) has an `up` for each of them that the adapter changes.
    """

    down: Weight  # [sum of ranks, columns]
    ups: tuple[AdapterUp, ...]

    @property
    def nbytes(self) -> int:
        return self.down.nbytes + sum(up.rows.nbytes for up in self.ups)


class AdapterView(Protocol):
    """What a backend made of a table. `change` is called for every change of the table."""

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
