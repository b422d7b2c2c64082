"""What a recorded program consists of: one class for each kind of instruction.

An instruction knows the values that it reads and writes, what it costs for each row of its result, and how it is told
to the native program.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

from antiphon.ops.cache import LayerCache
from antiphon.ops.native.attention import pages_of
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.program.dimension import Size, product
from antiphon.ops.program.traced import Traced, Value
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight


class Layout(Protocol):
    """Where values lie in a native program."""

    def place(self, tensor: Traced | None) -> tuple[int, int]:
        """(value, bytes), or (-1, 0) for None."""

    def extent(self, size: Size) -> tuple[int, int, int, int]:
        """(coefficient, symbol, symbol, constant)."""

    def group(self, name: str) -> int: ...


def _heads(layout: Layout, tensor: Traced) -> tuple[int, int, int, int]:
    """A place with strides by token and by head, for [tokens, heads, head_dim]."""
    return (*layout.place(tensor), int(tensor.strides[0]), int(tensor.strides[1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Instruction:
    """Fields that are `Traced` are read, but for those named in `results`, which are written."""

    kind: ClassVar[str]
    results: ClassVar[tuple[str, ...]] = ("out",)

    @property
    def operation(self) -> str:
        return self.kind

    def reads(self) -> list[Value]:
        found = [getattr(self, f.name) for f in fields(self) if f.name not in self.results]
        return [tensor.value for tensor in found if isinstance(tensor, Traced)]

    def written(self) -> list[Traced]:
        found = [getattr(self, name) for name in self.results]
        return [tensor for tensor in found if tensor is not None]

    def writes(self) -> list[Value]:
        return [tensor.value for tensor in self.written()]

    @property
    def rows(self) -> Size:
        """How many rows the result has: what the costs below are counted for."""
        return self.written()[0].shape[0]

    @property
    def weight(self) -> Weight | None:
        return None

    @property
    def is_int8(self) -> bool:
        """Whether its product is of int8."""
        return False

    def macs_per_row(self) -> int:
        """Multiplications with additions for each row of the result, attention to keys left out."""
        return 0

    def weight_bytes(self) -> int:
        """Bytes of weights that one run reads."""
        weight = self.weight
        return 0 if weight is None else weight.resident_bytes

    def macs_per_pair(self) -> int:
        """Multiplications with additions for each pair of query and key."""
        return 0

    def bytes_per_key(self) -> float:
        """Bytes of keys and values read for each token that is attended to."""
        return 0.0

    def emit(self, native: Any, layout: Layout) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Embed(Instruction):
    kind: ClassVar = "embed"
    ids: Traced
    matrix: Weight
    handle: Any  # the extension's matrix, kept alive
    scale: float
    out: Traced

    @property
    def weight(self) -> Weight:
        return self.matrix

    def weight_bytes(self) -> int:
        return 0  # only the rows of the tokens are read

    def emit(self, native: Any, layout: Layout) -> None:
        native.embed(
            self.handle.address, layout.place(self.ids), self.ids.dtype.itemsize == 8, self.scale,
            layout.place(self.out), layout.extent(self.out.shape[0]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Instruction):
    kind: ClassVar = "linear"
    x: Traced
    matrix: Weight
    handle: Any  # the extension's matrix, kept alive
    bias: Traced | None
    activation: Activation
    residual: Traced | None
    out: Traced

    @property
    def weight(self) -> Weight:
        return self.matrix

    @property
    def is_int8(self) -> bool:
        return bool(self.handle.is_packed)

    def macs_per_row(self) -> int:
        return self.matrix.rows * self.matrix.columns

    def emit(self, native: Any, layout: Layout) -> None:
        residual = self.residual
        native.linear(
            self.handle.address, layout.place(self.x), self.x.strides[0], layout.place(self.bias),
            *ACTIVATIONS[self.activation], layout.place(residual), 0 if residual is None else residual.strides[0],
            layout.place(self.out), self.out.strides[0], layout.extent(self.out.shape[0]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Norm(Instruction):
    """Over the last dimension of [rows, width] or [rows, heads, width]; `total` is x + residual, where there is one."""

    kind: ClassVar = "rms_norm"
    results: ClassVar = ("out", "total")
    centred: bool
    x: Traced
    gain: Traced
    bias: Traced | None
    eps: float
    residual: Traced | None
    out: Traced
    total: Traced | None

    @property
    def operation(self) -> str:
        return "layer_norm" if self.centred else "rms_norm"

    def emit(self, native: Any, layout: Layout) -> None:
        shape = self.x.shape
        inner = shape[1] if len(shape) == 3 else 1
        native.norm(
            self.centred, layout.place(self.x), _row_strides(self.x), layout.place(self.residual),
            (0, 0) if self.residual is None else _row_strides(self.residual), inner, shape[-1],
            layout.place(self.gain), layout.place(self.bias), self.eps, layout.place(self.out),
            layout.place(self.total), layout.extent(shape[0]),
        )  # fmt: skip


def _row_strides(tensor: Traced) -> tuple[int, int]:
    strides = tensor.strides
    return (int(strides[0]), int(strides[1]) if len(strides) == 3 else 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rotary(Instruction):
    kind: ClassVar = "rotary"
    results: ClassVar = ("q_out", "k_out")
    q: Traced
    k: Traced
    positions: Traced
    table: Traced
    q_out: Traced
    k_out: Traced

    def emit(self, native: Any, layout: Layout) -> None:
        native.rotary(
            _heads(layout, self.q), _heads(layout, self.k), self.q.shape[1], self.k.shape[1], self.q.shape[2],
            layout.place(self.positions), layout.place(self.table), *self.table.shape, layout.place(self.q_out),
            layout.place(self.k_out), layout.extent(self.q.shape[0]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreKV(Instruction):
    kind: ClassVar = "store_kv"
    results: ClassVar = ()
    k: Traced
    v: Traced
    cache: LayerCache
    group: str

    @property
    def rows(self) -> Size:
        return self.k.shape[0]

    def emit(self, native: Any, layout: Layout) -> None:
        native.store_kv(
            pages_of(self.cache), _heads(layout, self.k), _heads(layout, self.v), layout.group(self.group),
            layout.extent(self.rows),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class PrepareHeads(Instruction):
    """Norms of queries and keys where there are any, rotary embedding and store, in one pass over the tokens."""

    kind: ClassVar = "rotary+store_kv"
    results: ClassVar = ("q_out",)
    q: Traced
    k: Traced
    v: Traced
    q_gain: Traced | None
    q_eps: float
    k_gain: Traced | None
    k_eps: float
    positions: Traced
    table: Traced
    cache: LayerCache
    group: str
    q_out: Traced

    @property
    def operation(self) -> str:
        return self.kind if self.q_gain is None else f"norm+{self.kind}"

    def emit(self, native: Any, layout: Layout) -> None:
        native.heads(
            pages_of(self.cache), _heads(layout, self.q), _heads(layout, self.k), _heads(layout, self.v),
            self.q.shape[1], layout.place(self.q_gain), self.q_eps, layout.place(self.k_gain), self.k_eps,
            layout.place(self.positions), layout.place(self.table), *self.table.shape, layout.group(self.group),
            layout.place(self.q_out), layout.extent(self.rows),
        )  # fmt: skip


def _bias_strides(bias: Traced | None) -> tuple[int, int]:
    return (0, 0) if bias is None else (int(bias.strides[0]), int(bias.strides[1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class PagedAttention(Instruction):
    kind: ClassVar = "paged_attention"
    q: Traced
    cache: LayerCache
    group: str
    scale: float
    causal: bool
    window: int | None
    sinks: Traced | None
    softcap: float | None
    bias: Traced | None
    sink_tokens: int
    out: Traced

    def macs_per_pair(self) -> int:
        return 2 * int(product(self.q.shape[1:]))

    def bytes_per_key(self) -> float:
        return self.cache.layout.layer_bytes / self.cache.layout.block_tokens

    def emit(self, native: Any, layout: Layout) -> None:
        native.paged_attention(
            pages_of(self.cache), _heads(layout, self.q), self.q.shape[1], layout.group(self.group), self.scale,
            self.causal, self.window or 0, self.sink_tokens, layout.place(self.sinks), self.softcap or 0.0,
            layout.place(self.bias), _bias_strides(self.bias), layout.place(self.out), layout.extent(self.rows),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Attention(Instruction):
    kind: ClassVar = "attention"
    q: Traced
    k: Traced
    v: Traced
    seq_start: Traced
    scale: float
    causal: bool
    bias: Traced | None
    rounded: bool
    out: Traced

    def macs_per_pair(self) -> int:
        return 2 * int(product(self.q.shape[1:]))

    def bytes_per_key(self) -> float:
        return 2.0 * 4 * int(product(self.k.shape[1:]))

    def emit(self, native: Any, layout: Layout) -> None:
        native.attention(
            _heads(layout, self.q), _heads(layout, self.k), _heads(layout, self.v), self.q.shape[1], self.k.shape[1],
            self.q.shape[2], layout.place(self.seq_start), self.scale, self.causal, layout.place(self.bias),
            _bias_strides(self.bias), self.rounded, layout.place(self.out), layout.extent(self.rows),
            layout.extent(self.seq_start.shape[0] - 1),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class GatherRows(Instruction):
    kind: ClassVar = "gather_rows"
    x: Traced
    index: Traced
    out: Traced

    def emit(self, native: Any, layout: Layout) -> None:
        native.gather_rows(
            layout.place(self.x), self.x.strides[0], self.x.shape[1], layout.place(self.index),
            self.index.dtype.itemsize == 8, layout.place(self.out), layout.extent(self.x.shape[0]),
            layout.extent(self.rows),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(Instruction):
    """x [..., width] + y, whose rows are repeated over x's."""

    kind: ClassVar = "add"
    x: Traced
    y: Traced
    y_rows: Size
    out: Traced

    @property
    def rows(self) -> Size:
        return product(self.out.shape[:-1])

    def emit(self, native: Any, layout: Layout) -> None:
        x_stride, y_stride = (t.strides[-2] if t.dim() > 1 else 0 for t in (self.x, self.y))
        native.add(
            layout.place(self.x), x_stride, layout.place(self.y), y_stride, self.x.shape[-1], layout.place(self.out),
            layout.extent(self.rows), layout.extent(self.y_rows), self.y.value.most_rows,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class SegmentMean(Instruction):
    kind: ClassVar = "segment_mean"
    x: Traced
    seq_start: Traced
    out: Traced

    def emit(self, native: Any, layout: Layout) -> None:
        native.segment_mean(
            layout.place(self.x), self.x.strides[0], self.x.shape[1], layout.place(self.seq_start),
            layout.place(self.out), layout.extent(self.x.shape[0]), layout.extent(self.rows),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class L2Normalize(Instruction):
    kind: ClassVar = "l2_normalize"
    x: Traced
    out: Traced

    def emit(self, native: Any, layout: Layout) -> None:
        native.l2_normalize(
            layout.place(self.x), self.x.strides[0], self.x.shape[1], layout.place(self.out), layout.extent(self.rows)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv1d(Instruction):
    """`panels` are the weight as the extension reads it."""

    kind: ClassVar = "conv1d"
    x: Traced
    panels: Traced
    kernel: int
    bias: Traced | None
    stride: int
    padding: tuple[int, int]
    activation: Activation
    out: Traced

    @property
    def rows(self) -> Size:
        return product(self.out.shape[:2])

    def macs_per_row(self) -> int:
        return int(self.out.shape[2]) * self.kernel * int(self.x.shape[2])

    def weight_bytes(self) -> int:
        return int(product(self.panels.shape)) * self.panels.dtype.itemsize

    def emit(self, native: Any, layout: Layout) -> None:
        native.conv1d(
            layout.place(self.panels), self.kernel, self.out.shape[2], layout.place(self.x), self.x.shape[2],
            self.stride, self.padding[0], layout.place(self.bias), ACTIVATIONS[self.activation][0],
            layout.place(self.out), layout.extent(self.x.shape[0]), layout.extent(self.x.shape[1]),
            layout.extent(self.out.shape[1]),
        )  # fmt: skip
