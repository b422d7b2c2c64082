"""What a recorded program consists of: one class for each kind of instruction.

An instruction knows the values that it reads and writes, and what it costs for each row of its result. It knows no
device: what runs it is written by an emitter, such as `ops/native/program/emit.py`.
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
    """One step of a program. `Traced` fields named in `results` are written; the others are read."""

    kind: ClassVar[str]
    results: ClassVar[tuple[str, ...]] = ("out",)
    #: Fields with tensors of the model of which a run reads some rows, or that count as its weight.
    tables: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Make every kind of instruction a dataclass like this one."""
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
        """How many rows the result has; the costs below are for each of them."""
        return self.written()[0].shape[0]

    @property
    def weight(self) -> Weight | None:
        return None

    @property
    def is_int8(self) -> bool:
        """Whether it multiplies in int8."""
        return False

    def macs_per_row(self) -> int:
        """Multiplications with additions for each row of the result, attention to keys left out."""
        return 0

    def weight_bytes(self) -> int:
        """Bytes of weights that one run reads."""
        weight = self.weight
        return 0 if weight is None else weight.resident_bytes

    def constants(self) -> list[Traced]:
        """Small tensors of the model that one run reads whole, such as gains and biases."""
        found = [getattr(self, f.name) for f in fields(self) if f.name not in self.tables]
        return [tensor for tensor in found if isinstance(tensor, Traced) and tensor.value.kind is Kind.CONSTANT]

    def bytes_per_row(self) -> float:
        """Bytes of an embedding that is looked up, or of keys and values that are stored, for each row."""
        return 0.0

    def elementwise_per_row(self) -> int:
        """Multiplications with additions for each row that are not part of a product of matrices."""
        return 0

    def macs_per_pair(self) -> int:
        """Multiplications with additions for each pair of query and key."""
        return 0

    def bytes_per_key(self) -> float:
        """Bytes of keys and values read for each token that is attended to."""
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
        return 0  # only the rows of the tokens are read

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
    """A linear layer in which each token may have an adapter; what adapters cost is not counted."""

    kind: ClassVar = "adapted_linear"
    adapters: AdapterTable
    slots: Traced


class NormInstruction(Instruction):
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

    def elementwise_per_row(self) -> int:
        """One for the sum of squares and one for the gain; a mean takes one more."""
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
    """Norms of queries and keys where there are any, rotary embedding and store, in one pass over the tokens."""

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
    """x [..., width] + y, broadcast over the leading dimensions of x."""

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
    """Of [B, T, C_in] with a weight [C_out, C_in, kernel], neither dilated nor grouped nor gated."""

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
