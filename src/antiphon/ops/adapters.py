"""`AdapterTable`: the low-rank adapters of one linear layer, by slot. LoRA: arXiv:2106.09685."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class AdapterUp:
    """Up matrix of an adapter. Adds (down · x)[offset:][:rank] · rows to rows `first` to `first` + width of a product.

    `rows` is transposed and includes the adapter's scale: the product of a single token then sums whole rows.
    """

    rows: Tensor  # fp32 [rank, width], contiguous
    first: int
    offset: int


@dataclass(frozen=True)
class LayerAdapter:
    """Low-rank matrices of one adapter for one layer. `down` holds the down matrices of all `ups`, end to end.

    A fused layer (queries, keys and values) has an `up` for each part that the adapter changes.
    """

    down: Weight  # [sum of ranks, columns]
    ups: tuple[AdapterUp, ...]

    @property
    def nbytes(self) -> int:
        return self.down.nbytes + sum(up.rows.nbytes for up in self.ups)


class AdapterView(Protocol):
    """Backend's form of an adapter table. `change` is called before every change of the table."""

    def change(self, slot: int, layer: LayerAdapter | None) -> None: ...


class AdapterTable:
    """Adapters of one layer by slot; an empty slot leaves the layer's result unchanged. Changed only between steps.

    `views` holds the forms of the table by backend name: recorded programs read these, so an adapter can be added or
    removed without recording a program again.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows  # rows of the layer's weight: its output size
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
