"""Recording implementations of operations: each checks its operands, appends an instruction and returns a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.adapters import AdapterTable
from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.program import instructions
from antiphon.ops.program.dimension import Dim, Size, as_dim, product, same, same_shape, shape_text
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.ops.types import Activation, RotaryTable
from antiphon.weights.weight import Weight

_INDICES = (torch.int32, torch.int64)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise UnrecordableError(text)


class Recorder:
    """Implementations of operations that append instructions; each has the name and parameters of its operation.

    They reject calls that no instruction can express. A device's emitter rejects instructions without a kernel.
    """

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.groups: dict[int, str] = {}
        self._constants: dict[tuple[Any, ...], Value] = {}

    # -- values -------------------------------------------------------------------------------------------------

    def _new(self, *shape: Size, dtype: torch.dtype = torch.float32) -> Traced:
        _require(as_dim(product(shape)).is_pure, f"a result of shape {shape_text(shape)} is no multiple of a count")
        return Traced.whole(Value(Kind.BUFFER, "", shape, dtype))

    def _append(self, instruction: Instruction) -> Traced:
        """Append an instruction and return its first result."""
        self.instructions.append(instruction)
        return instruction.written()[0]

    def _rows(self, x: Any, what: str) -> Traced:
        """Return a tensor as an operand of kernels. Reject other types than floats and a strided last dimension."""
        tensor = x if isinstance(x, Traced) else self._constant(x, what)
        _require(
            tensor.dtype in _FLOATS and same(tensor.strides[-1], 1),
            f"{what} is {tensor.dtype} {tensor.text} with strides {shape_text(tensor.strides)}",
        )
        return tensor

    def _constant(self, tensor: Tensor | None, what: str, like: Sequence[Size] = ()) -> Any:
        """Return a stand-in for a tensor of the model. Dimensions sliced to a symbolic size of `like` get that size."""
        if tensor is None:
            return None
        if not isinstance(tensor, Tensor) or tensor.dtype is not torch.float32:
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            raise UnrecordableError(f"{what} is {kind}, not a float32 tensor")
        shape: list[Size] = list(tensor.shape)
        for index in range(1, min(len(shape), len(like)) + 1):
            size = like[-index]
            if isinstance(size, Dim) and shape[-index] == size.sample:
                shape[-index] = size
        cut = [index for index, size in enumerate(shape) if isinstance(size, Dim)]
        _require(cut in ([], [0]), f"{what} is cut to {shape_text(shape)}")
        key = (tensor.data_ptr(), tuple(str(size) for size in shape), tensor.stride())
        value = self._constants.get(key)
        if value is None:
            value = Value(Kind.CONSTANT, what, tuple(shape), tensor.dtype, tensor)
            if cut:
                left = tensor.untyped_storage().nbytes() // tensor.itemsize - tensor.storage_offset()
                value.most_rows = left // max(1, tensor.stride(0))
            self._constants[key] = value
        return Traced(value, tuple(shape), tensor.stride())

    def _vector(self, tensor: Tensor | None, width: Size, what: str) -> Any:
        found = self._constant(tensor, what)
        _require(
            found is None or (found.is_contiguous() and same(product(found.shape), width)),
            f"{what} is {shape_text(tensor.shape) if tensor is not None else ''}, not {width} in a row",
        )
        return found

    def _group(self, group: GroupBatch) -> str:
        name = self.groups.get(id(group))
        if name is None:
            raise UnrecordableError("the forward uses a cache group that is not its batch's")
        return name

    # -- operations ---------------------------------------------------------------------------------------------

    def embed(self, ids: Traced, weight: Weight, scale: float = 1.0) -> Traced:
        _require(
            isinstance(ids, Traced) and ids.dim() == 1 and ids.is_contiguous() and ids.dtype in _INDICES,
            "embed needs ids in one row",
        )
        out = self._new(ids.shape[0], weight.columns)
        return self._append(instructions.EmbedInstruction(ids=ids, matrix=weight, scale=float(scale), out=out))

    def linear(
        self,
        x: Traced,
        weight: Weight,
        bias: Tensor | None = None,
        activation: Activation = "none",
        residual: Traced | None = None,
        dtype: torch.dtype | None = None,
        kind: Callable[..., instructions.LinearInstruction] = instructions.LinearInstruction,
    ) -> Traced:
        x = self._rows(x, "the input of a linear layer")
        _require(x.dim() == 2 and same(x.shape[1], weight.columns), f"x is {x.text}, the weight {weight.shape}")
        gated = activation.endswith("_gate")
        if residual is not None:
            residual = self._rows(residual, "a residual")
        out_type = dtype or (x.dtype if residual is None else residual.dtype)
        out = self._new(x.shape[0], weight.rows // 2 if gated else weight.rows, dtype=out_type)
        if residual is not None:
            _require(same_shape(residual.shape, out.shape), f"the residual is {residual.text}, not {out.text}")
        own_bias = self._vector(bias, weight.rows, "a bias")
        return self._append(kind(x=x, matrix=weight, bias=own_bias, activation=activation, residual=residual, out=out))

    def adapted_linear(
        self,
        x: Traced,
        weight: Weight,
        adapters: AdapterTable,
        slots: Traced,
        bias: Tensor | None = None,
        activation: Activation = "none",
        residual: Traced | None = None,
    ) -> Traced:
        _require(
            isinstance(slots, Traced) and slots.dtype is torch.int32 and slots.dim() == 1 and slots.is_contiguous(),
            "slots of adapters must be int32 in one row",
        )
        _require(same(slots.shape[0], x.shape[0]), f"{slots.text} slots of adapters for x {x.text}")
        kind = partial(instructions.AdaptedLinearInstruction, adapters=adapters, slots=slots)
        return self.linear(x, weight, bias, activation, residual, kind=kind)

    def rms_norm(
        self,
        x: Traced,
        weight: Tensor,
        eps: float,
        residual: Traced | None = None,
        dtype: torch.dtype | None = None,
    ) -> tuple[Traced, Traced]:
        return self.layer_norm(x, weight, None, eps, residual, dtype, centred=False)

    def layer_norm(
        self,
        x: Traced,
        weight: Tensor,
        bias: Tensor | None,
        eps: float,
        residual: Traced | None = None,
        dtype: torch.dtype | None = None,
        centred: bool = True,
    ) -> tuple[Traced, Traced]:
        x = self._rows(x, "the input of a norm")
        _require(x.dim() in (2, 3) and not isinstance(x.strides[0], Dim), f"the input of a norm is {x.text}")
        total: Traced | None = None
        if residual is not None:
            residual = self._rows(residual, "a norm's residual")
            _require(same_shape(residual.shape, x.shape), f"the residual is {residual.text}, not {x.text}")
            total = self._new(*x.shape, dtype=torch.promote_types(x.dtype, residual.dtype))
        width = x.shape[-1]
        out = self._new(*x.shape, dtype=dtype or (x if total is None else total).dtype)
        self._append(
            instructions.NormInstruction(
                centred=centred,
                x=x,
                gain=self._vector(weight, width, "a norm's weight"),
                bias=self._vector(bias, width, "a norm's bias"),
                eps=float(eps),
                residual=residual,
                out=out,
                total=total,
            )
        )
        return out, x if total is None else total

    def _heads(self, x: Traced, what: str) -> Traced:
        found = self._rows(x, what)
        _require(found.dim() == 3 and not any(isinstance(s, Dim) for s in found.strides), f"{what} are {found.text}")
        return found

    def rotary(self, q: Traced, k: Traced, positions: Traced, table: RotaryTable) -> tuple[Traced, Traced]:
        q, k = self._heads(q, "queries"), self._heads(k, "keys")
        _require(
            isinstance(positions, Traced) and positions.dim() == 1 and positions.dtype is torch.int32,
            "rotary embedding along several axes cannot be recorded",
        )
        values = self._constant(table.values, "a rotary table")
        fits = values.is_contiguous() and int(values.shape[1]) <= int(q.shape[2])
        _require(fits, f"the rotary table is {values.text}")
        q_out, k_out = self._new(*q.shape, dtype=q.dtype), self._new(*k.shape, dtype=k.dtype)
        self._append(
            instructions.RotaryInstruction(q=q, k=k, positions=positions, table=values, q_out=q_out, k_out=k_out)
        )
        return q_out, k_out

    def store_kv(self, k: Traced, v: Traced, cache: LayerCache, group: GroupBatch) -> None:
        k, v = self._heads(k, "keys"), self._heads(v, "values")
        expected = (cache.layout.group.num_kv_heads, cache.layout.group.head_dim)
        _require(
            same_shape(k.shape, v.shape) and same_shape(k.shape[1:], expected),
            f"keys and values are {k.text} and {v.text}; the pages have {expected}",
        )
        self.instructions.append(instructions.StoreInstruction(k=k, v=v, cache=cache, group=self._group(group)))

    def _bias(self, bias: Tensor | None) -> Any:
        found = self._constant(bias, "an attention bias")
        _require(found is None or same(found.strides[-1], 1), "an attention bias has strides")
        return found

    def paged_attention(
        self,
        q: Traced,
        cache: LayerCache,
        group: GroupBatch,
        scale: float,
        causal: bool = True,
        window: int | None = None,
        sinks: Tensor | None = None,
        softcap: float | None = None,
        bias: Tensor | None = None,
        sink_tokens: int = 0,
    ) -> Traced:
        q = self._heads(q, "queries")
        kv_heads, head_dim = cache.layout.group.num_kv_heads, cache.layout.group.head_dim
        _require(
            same(q.shape[2], head_dim) and int(q.shape[1]) % kv_heads == 0,
            f"queries are {q.text}; the pages have {kv_heads} heads of {head_dim} channels",
        )
        out = self._new(*q.shape, dtype=q.dtype)
        return self._append(
            instructions.PagedAttentionInstruction(
                q=q,
                cache=cache,
                group=self._group(group),
                scale=float(scale),
                causal=causal,
                window=window,
                sinks=self._vector(sinks, q.shape[1], "attention sinks"),
                softcap=softcap,
                bias=self._bias(bias),
                sink_tokens=sink_tokens,
                out=out,
            )
        )

    def attention(
        self,
        q: Traced,
        k: Traced,
        v: Traced,
        seq_start: Traced,
        scale: float,
        causal: bool = False,
        bias: Tensor | None = None,
        rounded: bool = False,
    ) -> Traced:
        q, k, v = self._heads(q, "queries"), self._heads(k, "keys"), self._heads(v, "values")
        starts = self._starts(seq_start)
        _require(
            same_shape(k.shape, v.shape) and same(q.shape[0], k.shape[0]) and same(q.shape[2], k.shape[2]),
            f"queries, keys and values are {q.text}, {k.text} and {v.text}",
        )
        out = self._new(*q.shape, dtype=q.dtype)
        return self._append(
            instructions.AttentionInstruction(
                q=q,
                k=k,
                v=v,
                seq_start=starts,
                scale=float(scale),
                causal=causal,
                bias=self._bias(bias),
                rounded=rounded,
                out=out,
            )
        )

    @staticmethod
    def _starts(seq_start: Any) -> Traced:
        valid = isinstance(seq_start, Traced) and seq_start.dtype is torch.int32 and seq_start.is_contiguous()
        _require(valid and seq_start.dim() == 1, "sequence starts must be int32 in one row")
        return seq_start

    def conv1d(
        self,
        x: Traced,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        dilation: int = 1,
        groups: int = 1,
        activation: Activation = "none",
        state: Tensor | None = None,
    ) -> Traced:
        _require(
            state is None and dilation == 1 and groups == 1 and not activation.endswith("_gate"),
            "a convolution with state, dilation, groups or a gated activation cannot be recorded",
        )
        x = self._rows(x, "the input of a convolution")
        outputs, channels, kernel = weight.shape
        _require(
            x.dim() == 3 and x.is_contiguous() and same(x.shape[2], channels),
            f"a convolution of {channels} channels is given {x.text}",
        )
        length = (as_dim(x.shape[1]) + (sum(padding) - kernel)) // stride + 1
        out = self._new(x.shape[0], length if length.symbols else length.constant, outputs)
        return self._append(
            instructions.ConvolutionInstruction(
                x=x,
                filter=self._constant(weight, "a convolution's weight"),
                bias=self._vector(bias, outputs, "a convolution's bias"),
                stride=stride,
                padding=padding,
                activation=activation,
                out=out,
            )
        )

    def add(self, x: Any, y: Any, scale: float = 1.0) -> Traced:
        _require(scale == 1.0, f"a sum times {scale} cannot be recorded")
        if not isinstance(x, Traced):
            x, y = y, x  # addition commutes
        x = self._rows(x, "a summand")
        y = self._rows(y, "a summand") if isinstance(y, Traced) else self._constant(y, "a summand", x.shape)
        tail = x.shape[len(x.shape) - y.dim() :]
        _require(
            0 < y.dim() <= x.dim() and same_shape(y.shape, tail) and same(y.strides[-1], 1),
            f"{x.text} and {y.text} are added with their rows in other orders",
        )
        for tensor in (x, y):
            _require(tensor.dim() < 3 or tensor.is_contiguous(), f"a summand {tensor.text} is not contiguous")
        out = self._new(*x.shape, dtype=torch.promote_types(x.dtype, y.dtype))
        return self._append(instructions.AddInstruction(x=x, y=y, y_rows=product(y.shape[:-1]), out=out))

    def gather_rows(self, x: Traced, rows: Traced) -> Traced:
        x = self._rows(x, "rows to gather from")
        _require(
            isinstance(rows, Traced) and rows.dim() == 1 and rows.is_contiguous() and rows.dtype in _INDICES,
            "rows to gather must be whole numbers in one row",
        )
        _require(x.dim() == 2, f"rows are gathered from {x.text}")
        out = self._new(rows.shape[0], x.shape[1], dtype=x.dtype)
        return self._append(instructions.GatherInstruction(x=x, index=rows, out=out))

    def segment_mean(self, x: Traced, seq_start: Traced) -> Traced:
        x, starts = self._rows(x, "rows to take means of"), self._starts(seq_start)
        out = self._new(starts.shape[0] - 1, x.shape[1])
        return self._append(instructions.SegmentMeanInstruction(x=x, seq_start=starts, out=out))

    def l2_normalize(self, x: Traced) -> Traced:
        x = self._rows(x, "rows to normalise")
        _require(x.dim() == 2, f"{x.text} is normalised")
        out = self._new(*x.shape)
        return self._append(instructions.UnitRowsInstruction(x=x, out=out))
