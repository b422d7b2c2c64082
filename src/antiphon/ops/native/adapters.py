"""Linear layers with an optional low-rank adapter for each token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.adapters import AdapterTable, LayerAdapter
from antiphon.ops.native.extension import extension
from antiphon.ops.native.product import HALF, ROW_SCALED, is_plain, matrix_of, plain_rows
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.reference import product as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight

VIEW = "native"


class NativeTable:
    """Extension's table of a layer's adapters. Keeps the matrices that the table refers to alive."""

    def __init__(self, rows: int) -> None:
        self.table: Any = extension().AdapterTable()
        self._rows = rows
        self._kept: dict[int, LayerAdapter] = {}

    def change(self, slot: int, layer: LayerAdapter | None) -> None:
        if layer is None:
            self.table.clear(slot)
            self._kept.pop(slot, None)
            return
        ups = [(up.rows.data_ptr(), *up.rows.shape, up.first, up.offset) for up in layer.ups]
        self.table.set(slot, self._rows, _address(layer.down), ups)
        self._kept[slot] = layer


def _address(weight: Weight) -> int:
    matrix = matrix_of(weight)
    if matrix is None:
        types = ", ".join(weight.bytes_by_type)
        raise UnsupportedError(f"an adapter has a type that no native kernel reads: {types}")
    address: int = matrix.address
    return address


def table_of(adapters: AdapterTable) -> Any:
    """Return the extension's table of a layer's adapters, made once and kept up to date by `AdapterTable`."""
    view = adapters.views.get(VIEW)
    if view is None:
        view = NativeTable(adapters.rows)
        for slot, layer in adapters.layers.items():
            view.change(slot, layer)
        adapters.views[VIEW] = view
    assert isinstance(view, NativeTable)
    return view.table


def adapted_linear(
    x: Tensor,
    weight: Weight,
    adapters: AdapterTable,
    slots: Tensor,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    number, gated = ACTIVATIONS[activation]
    shape = (x.shape[0], weight.rows // 2 if gated else weight.rows)
    matrix = None if HALF in weight.packed or ROW_SCALED in weight.packed else matrix_of(weight)
    readable = x.dtype is torch.float32 and is_plain(bias, (weight.rows,)) and is_plain(residual, shape)
    if matrix is None or not readable:
        return reference.adapted_linear(x, weight, adapters, slots, bias, activation, residual)
    x = plain_rows(x, weight)
    if slots.shape != x.shape[:1]:
        raise ValueError(f"{x.shape[0]} tokens have {tuple(slots.shape)} slots of adapters")
    slots = slots.to(torch.int32).contiguous()
    out = torch.empty(*shape)
    matrix.multiply_adapted(
        table_of(adapters), slots.data_ptr(), x.data_ptr(), x.stride(0), shape[0],
        0 if bias is None else bias.data_ptr(), number, gated, 0 if residual is None else residual.data_ptr(),
        0 if residual is None else residual.stride(0), out.data_ptr(), shape[1], threads or default_threads(), variant,
    )  # fmt: skip
    return out
