"""Instructions of recorded programs, one class for each kind.

An instruction knows the values that it reads and writes, and its cost for each row of its result. It knows no device:
emitters such as `ops/native/program/emit.py` choose the kernels that run it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, dataclass_transform

from antiphon.ops.adapters import AdapterTable
from antiphon.ops.cache import LayerCache
from antiphon.ops.program.dimension import Size, product
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.ops.types import Activation, rounds_inputs
from antiphon.weights.weight import Weight


@dataclass_transform(frozen_default=True, eq_default=False, kw_only_default=True)
@dataclass(frozen=True, eq=False, kw_only=True)
class Instruction:
    """Step of a program. `Traced` fields named in `results` are written; the others are read."""

    kind: ClassVar[str]
    results: ClassVar[tuple[str, ...]] = ("out",)
    #: Names of fields whose tensors `constants` leaves out: a run reads only some rows, or they count as its weight.
    tables: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Make every subclass a frozen dataclass with keyword arguments."""
        dataclass(frozen=True, eq=False, kw_only=True)(cls)

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
        """Number of rows of the result, which the costs `…_per_row` are multiplied by."""
        return self.written()[0].shape[0]

    @property
    def weight(self) -> Weight | None:
        return None

    @property
    def is_int8(self) -> bool:
        return False

    def macs_per_row(self) -> int:
        """Return the multiply-accumulates of matrix products for each row of the result, without attention."""
        return 0

    def weight_bytes(self) -> int:
        """Return the bytes of weights that one run reads."""
        weight = self.weight
        return 0 if weight is None else weight.resident_bytes

    def constants(self) -> list[Traced]:
        """Return the small tensors of the model that one run reads whole, such as gains and biases."""
        found = [getattr(self, f.name) for f in fields(self) if f.name not in self.tables]
        return [tensor for tensor in found if isinstance(tensor, Traced) and tensor.value.kind is Kind.CONSTANT]

    def bytes_per_row(self) -> float:
        """Return the bytes that each row looks up in an embedding, or stores as keys and values."""
        return 0.0

    def elementwise_per_row(self) -> int:
        """Return the multiply-accumulates for each row outside matrix products."""
        return 0

    def macs_per_pair(self) -> int:
        """Return the multiply-accumulates for each pair of query and key."""
        return 0

    def bytes_per_key(self) -> float:
        """Return the bytes of keys and values read for each cached token."""
        return 0.0


class EmbedInstruction(Instruction):
    kind: ClassVar = "embed"
    ids: Traced
    matrix: Weight
    scale: float
    out: Traced

    @property
    def weight(self) -> Weight:
        return self.matrix

    def weight_bytes(self) -> int:
        return 0  # only the tokens' rows are read: see `bytes_per_row`

    def bytes_per_row(self) -> float:
        return self.matrix.resident_bytes / self.matrix.rows


class LinearInstruction(Instruction):
    kind: ClassVar = "linear"
    x: Traced
    matrix: Weight
    bias: Traced | None
    activation: Activation
    residual: Traced | None
    out: Traced

    @property
    def weight(self) -> Weight:
        return self.matrix

    @property
    def is_int8(self) -> bool:
        return rounds_inputs(self.matrix)

    def macs_per_row(self) -> int:
        return self.matrix.rows * self.matrix.columns


class AdaptedLinearInstruction(LinearInstruction):
    """Linear layer with an optional adapter for each token; the adapters' cost is not counted."""

    kind: ClassVar = "adapted_linear"
    adapters: AdapterTable
    slots: Traced


class NormInstruction(Instruction):
    """Norm over the last dimension of [rows, width] or [rows, heads, width]; `total` is x + residual, if given."""

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

    def elementwise_per_row(self) -> int:
        """Count one operation for the sum of squares, one for the gain and, if centred, one for the mean."""
        return (3 if self.centred else 2) * int(product(self.x.shape[1:]))


class RotaryInstruction(Instruction):
    kind: ClassVar = "rotary"
    results: ClassVar = ("q_out", "k_out")
    tables: ClassVar = ("table",)
    q: Traced
    k: Traced
    positions: Traced
    table: Traced
    q_out: Traced
    k_out: Traced


class StoreInstruction(Instruction):
    kind: ClassVar = "store_kv"
    results: ClassVar = ()
    k: Traced
    v: Traced
    cache: LayerCache
    group: str

    @property
    def rows(self) -> Size:
        return self.k.shape[0]

    def bytes_per_row(self) -> float:
        return self.cache.layout.layer_bytes / self.cache.layout.block_tokens


class HeadsInstruction(Instruction):
    """Optional norms of queries and keys, rotary embedding and store, fused into one pass over the tokens."""

    kind: ClassVar = "rotary+store_kv"
    results: ClassVar = ("q_out",)
    tables: ClassVar = ("table",)
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

    def bytes_per_row(self) -> float:
        return self.cache.layout.layer_bytes / self.cache.layout.block_tokens


class PagedAttentionInstruction(Instruction):
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


class AttentionInstruction(Instruction):
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

    @property
    def is_int8(self) -> bool:
        return self.rounded

    def macs_per_pair(self) -> int:
        return 2 * int(product(self.q.shape[1:]))

    def bytes_per_key(self) -> float:
        return 2.0 * 4 * int(product(self.k.shape[1:]))


class GatherInstruction(Instruction):
    kind: ClassVar = "gather_rows"
    x: Traced
    index: Traced
    out: Traced


class AddInstruction(Instruction):
    """Sum of x [..., width] and y, which is broadcast over the leading dimensions of x."""

    kind: ClassVar = "add"
    x: Traced
    y: Traced
    y_rows: Size
    out: Traced

    @property
    def rows(self) -> Size:
        return product(self.out.shape[:-1])


class SegmentMeanInstruction(Instruction):
    kind: ClassVar = "segment_mean"
    x: Traced
    seq_start: Traced
    out: Traced


class UnitRowsInstruction(Instruction):
    kind: ClassVar = "l2_normalize"
    x: Traced
    out: Traced


class ConvolutionInstruction(Instruction):
    """Convolution of [B, T, C_in] with a weight [C_out, C_in, kernel], neither dilated nor grouped nor gated."""

    kind: ClassVar = "conv1d"
    tables: ClassVar = ("filter",)
    x: Traced
    filter: Traced
    bias: Traced | None
    stride: int
    padding: tuple[int, int]
    activation: Activation
    out: Traced

    @property
    def rows(self) -> Size:
        return product(self.out.shape[:2])

    def macs_per_row(self) -> int:
        return int(product(self.filter.shape))

    def weight_bytes(self) -> int:
        return int(product(self.filter.shape)) * self.filter.dtype.itemsize
