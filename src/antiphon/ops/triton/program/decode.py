"""Lowering of a recorded forward to the kernels of a decode step: one new token for each of a fixed number of rows.

A norm before a product disappears into it. Up to `VECTOR_ROWS` rows every program of the product computes the norm;
up to `ROW_PRODUCT_ROWS` the kernel that writes the residual stream leaves it multiplied by the norm's weight, with the
sums of its squares, and the product divides. Beyond, a kernel of its own adds the residual and normalises, and a
library multiplies. Heads are normalised, rotated, stored and attend in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Kind, Traced, Value
from antiphon.ops.triton.kernels.activations import NUMBERS
from antiphon.ops.triton.kernels.decode_attention import decode_attention
from antiphon.ops.triton.kernels.embedding import gather_scaled
from antiphon.ops.triton.kernels.epilogue import finish_product
from antiphon.ops.triton.kernels.norms import norm_rows
from antiphon.ops.triton.kernels.row_product import row_product
from antiphon.ops.triton.kernels.vector_product import vector_product
from antiphon.ops.triton.launch import Card, ceil_power
from antiphon.ops.triton.library import multiply
from antiphon.ops.triton.pages import pages_of
from antiphon.ops.triton.program.launch import Call, Launch
from antiphon.ops.triton.program.normed import NextNorm, Normed
from antiphon.ops.triton.program.quantised import (
    Product,
    embed_launch,
    library_calls,
    row_launches,
    scaled_parts,
    takes_scaled,
    vector_launches,
)
from antiphon.ops.triton.program.tiles import (
    ROW_PRODUCT_ROWS,
    VECTOR_ROWS,
    RowTile,
    attention_tile,
    row_tile,
    vector_tile,
)
from antiphon.ops.triton.program.workspace import Workspace
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix
from antiphon.ops.triton.quantised.prepare import PreparedWeight
from antiphon.ops.triton.quantised.workspace import workspace_of
from antiphon.ops.triton.weights import form_of
from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class GroupRows:
    """Where the rows' blocks of a cache group are: row r's table begins at tables[r * stride]."""

    tables: Tensor  # int32, flat
    stride: int
    seq_lens: Tensor  # int32 [rows], the new token included


@dataclass(frozen=True)
class DecodeInputs:
    """What a step reads: inputs of the recording by name, and by place the row of each table."""

    tensors: Mapping[str, Tensor]
    table_rows: Tensor  # int32 [rows]
    groups: Mapping[str, GroupRows]


class DecodeLowering:
    """The launches of one step of `rows` requests, in order; `output` has the result when they have run."""

    def __init__(
        self,
        recording: Recording,
        rows: int,
        splits: int,
        inputs: DecodeInputs,
        workspace: Workspace,
        counters: Tensor,
        compute_type: torch.dtype,
        card: Card,
    ) -> None:
        self.recording, self.rows, self.splits = recording, rows, splits
        self.launches: list[Launch | Call] = []
        self._inputs, self._workspace = inputs, workspace
        self._counters, self._type, self._card = counters, compute_type, card
        #: Rows that buffers have: tensor cores take 16 or more.
        self.padded = ceil_power(rows) if rows <= VECTOR_ROWS else max(16, ceil_power(rows)) if rows <= 64 else rows
        self._tensors: dict[int, Tensor] = {}
        self._normed: dict[int, Normed] = {}
        self._sums: dict[int, tuple[Tensor, Traced]] = {}  # of a residual that a norm adds
        self._aliases: dict[int, Value] = {}
        self._find_readers()
        for place, instruction in enumerate(recording.instructions):
            self._place = place
            if place not in self._fused:
                lower = _LOWERINGS.get(type(instruction))
                if lower is None:
                    raise UnrecordableError(f"{instruction.operation} has no kernel in a decode step")
                lower(self, instruction)
            self._release(place)
        if recording.output is None:
            raise UnrecordableError("a decode step gives logits")
        self.output = self._tensors[id(self._origin(recording.output))]

    # -- values ------------------------------------------------------------------------------------------------------

    def _origin(self, value: Value) -> Value:
        while id(value) in self._aliases:
            value = self._aliases[id(value)]
        return value

    def _find_readers(self) -> None:
        """Who reads each value, in order. Gathering the rows of the logits gives every row of a decode step."""
        instructions = self.recording.instructions
        for instruction in instructions:
            if isinstance(instruction, program.GatherRows):
                self._aliases[id(instruction.out.value)] = instruction.x.value
        self._readers: dict[int, list[int]] = {}
        for place, instruction in enumerate(instructions):
            if not isinstance(instruction, program.GatherRows):
                for value in instruction.reads():
                    self._readers.setdefault(id(self._origin(value)), []).append(place)
        if self.recording.output is not None:
            self._readers.setdefault(id(self._origin(self.recording.output)), []).append(len(instructions))
        self._fused: set[int] = set()
        self._held: dict[int, list[Tensor]] = {}

    def _release(self, place: int) -> None:
        """Give back the places of values that nothing reads after this instruction."""
        for tensor in self._held.pop(place, ()):
            self._workspace.give_back(tensor)

    def _hold(self, tensor: Tensor, value: Value) -> Tensor:
        """Keep a tensor until the last reader of the value, through norms that only their readers compute."""
        self._held.setdefault(self._last_reader(value), []).append(tensor)
        return tensor

    def _last_reader(self, value: Value) -> int:
        last = self._place
        for place in self._readers.get(id(self._origin(value)), ()):
            last = max(last, place)
            reader = self.recording.instructions[place] if place < len(self.recording.instructions) else None
            if isinstance(reader, program.Norm):
                last = max(last, self._last_reader(reader.out.value))
        return last

    def _take(self, value: Value, width: int, dtype: torch.dtype) -> Tensor:
        """A tensor [padded rows, width] for a value."""
        tensor = self._workspace.take((self.padded, width), dtype)
        self._tensors[id(value)] = tensor
        return self._hold(tensor, value)

    def _scratch(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor that only the present instruction uses."""
        tensor = self._workspace.take(shape, dtype)
        self._held.setdefault(self._place, []).append(tensor)
        return tensor

    def _tensor(self, traced: Traced) -> Tensor:
        """The contents of a view, whose rows are those of its value."""
        value = self._origin(traced.value)
        if value.constant is not None:
            return value.constant
        if value.kind is Kind.INPUT:
            return self._inputs.tensors[value.name]
        if id(value) in self._normed:
            raise UnrecordableError("a norm inside a product is read by something else")
        return self._tensors[id(value)]

    def _whole(self, traced: Traced) -> Tensor:
        if traced.offset:
            raise UnrecordableError(f"a product of a part of {traced.text} has no kernel in a decode step")
        return self._tensor(traced)

    # -- launches ----------------------------------------------------------------------------------------------------

    @property
    def _dependent(self) -> bool:
        """The first kernel waits for all before it, so that the others may read the step's inputs before they wait."""
        return self._card.dependent_launch and bool(self.launches)

    def _launch(
        self, name: str, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any],
        warps: int = 4, stages: int = 1, weight_bytes: int = 0,
    ) -> None:  # fmt: skip
        self._emit([Launch(name, kernel, grid, arguments, constants, warps, stages, weight_bytes=weight_bytes)])

    def _emit(self, launches: Sequence[Launch | Call]) -> None:
        """Add launches. A kernel that has no PDL never waits for the one before it, so it must not start early."""
        for launch in launches:
            if isinstance(launch, Launch) and launch.constants.get("PDL", False) and self._dependent:
                launch = replace(launch, dependent=True)
            self.launches.append(launch)

    def _embed(self, i: program.Embed) -> None:
        table = self._matrix(i.matrix)
        width = i.matrix.columns
        out = self._take(i.out.value, width, torch.float32)
        norm = self._scaled_norm(i.out.value)
        after = None if norm is None else self._leave_scaled(norm, width, 1)
        if not isinstance(table, Tensor):
            if not isinstance(table, QuantisedMatrix) or len(table.pieces) != 1:
                raise UnrecordableError("an embedding in fp8 or of several types has no kernel in a decode step")
            self._emit([embed_launch(table, self._whole(i.ids), out, self.rows, i.scale, after, self._card)])
            return
        gain, scaled, squares = (out, out, out) if after is None else (after.gain, after.scaled, after.squares)
        self._launch(
            "embed", gather_scaled, (self.rows,),
            (self._whole(i.ids), table, out, gain, scaled, squares, i.scale),
            {"WIDTH": width, "BLOCK": ceil_power(width), "SCALED": norm is not None, "ROWS": self.padded,
             "PDL": self._card.dependent_launch},
        )  # fmt: skip

    # -- norms -------------------------------------------------------------------------------------------------------

    def _product_readers(self, value: Value) -> list[program.Linear]:
        """The products that read a value, if nothing else does."""
        found = []
        for place in self._readers.get(id(self._origin(value)), ()):
            reader = self.recording.instructions[place] if place < len(self.recording.instructions) else None
            if type(reader) is not program.Linear or self._origin(reader.x.value) is not self._origin(value):
                return []
            found.append(reader)
        return found

    def _plain(self, norm: program.Norm) -> bool:
        return not norm.centred and norm.bias is None and norm.residual is None and norm.x.dim() == 2

    def _scaled_norm(self, value: Value) -> program.Norm | None:
        """The norm whose products divide by the root mean square, if that is how this value is read."""
        if not VECTOR_ROWS < self.rows <= 64:
            return None
        norms = [norm for norm in self._norms_of(value) if self._plain(norm)]
        if len(norms) != 1:
            return None
        products = self._product_readers(norms[0].out.value)
        return norms[0] if products and all(self._takes_scaled(product) for product in products) else None

    def _norms_of(self, value: Value) -> list[program.Norm]:
        places = self._readers.get(id(self._origin(value)), ())
        readers = [self.recording.instructions[place] for place in places if place < len(self.recording.instructions)]
        return [reader for reader in readers if isinstance(reader, program.Norm)]

    def _takes_scaled(self, product: program.Linear) -> bool:
        matrix = self._matrix(product.matrix)
        return self._row_tile(product) is not None if isinstance(matrix, Tensor) else takes_scaled(matrix)

    def _leave_scaled(self, norm: program.Norm, width: int, parts: int) -> NextNorm:
        """Where the writer of a value leaves what the products after its norm need."""
        gain = self._tensor(norm.gain)
        scaled = self._hold(self._workspace.take((self.padded, width), self._type), norm.out.value)
        squares = self._hold(self._workspace.take((parts, self.padded), torch.float32), norm.out.value)
        self._normed[id(norm.out.value)] = Normed(scaled, gain, norm.eps, squares, parts)
        return NextNorm(gain, scaled, squares)

    def _norm(self, i: program.Norm) -> None:
        if id(i.out.value) in self._normed:
            return
        width = int(i.x.shape[-1])
        origin = self._origin(i.x.value)
        if self.rows <= VECTOR_ROWS and self._plain(i) and self._product_readers(i.out.value):
            self._normed[id(i.out.value)] = Normed(self._whole(i.x), self._tensor(i.gain), i.eps)
            return
        if i.x.dim() != 2:
            raise UnrecordableError("a norm of heads has a kernel only beside rotary embedding and store")
        residual: Tensor | None = None
        total: Tensor | None = None
        if id(origin) in self._sums:
            x, before = self._sums.pop(id(origin))
            residual, total = self._tensor(before), self._tensors[id(origin)]
        else:
            x = self._whole(i.x)
        if i.residual is not None:
            if residual is not None or i.total is None:
                raise UnrecordableError("a norm after two residuals has no kernel")
            residual, total = self._tensor(i.residual), self._take(i.total.value, width, torch.float32)
        out = self._take(i.out.value, width, self._type if self._product_readers(i.out.value) else torch.float32)
        gain = self._tensor(i.gain)
        bias = gain if i.bias is None else self._tensor(i.bias)
        self._launch(
            "norm", norm_rows, (self.rows,),
            (x, x if residual is None else residual, gain, bias, out, out if total is None else total,
             self.rows, width, 0, width, 0, 1, i.eps),
            {"WIDTH": width, "BLOCK": ceil_power(width), "ROWS": 1, "CENTRED": i.centred, "BIAS": i.bias is not None,
             "RESIDUAL": residual is not None, "PDL": self._card.dependent_launch},
            warps=4 if width <= 2048 else 8,
        )  # fmt: skip

    # -- products ----------------------------------------------------------------------------------------------------

    def _row_tile(self, i: program.Linear) -> RowTile | None:
        gated = i.activation.endswith("_gate")
        columns = i.matrix.rows // 2 if gated else i.matrix.rows
        return row_tile(self.padded, i.matrix.columns, columns, gated)

    def _linear(self, i: program.Linear) -> None:
        matrix = self._matrix(i.matrix)
        gated = i.activation.endswith("_gate")
        columns = i.matrix.rows // 2 if gated else i.matrix.rows
        is_output = self._origin(i.out.value) is self._origin(self.recording.output)  # type: ignore[arg-type]
        keeps = i.residual is not None or is_output
        dtype = torch.float32 if keeps else self._type
        constants = {
            "K": i.matrix.columns, "N": columns, "GATED": gated,
            "ACTIVATION": NUMBERS[i.activation.removesuffix("_gate")], "BIAS": i.bias is not None,
            "RESIDUAL": i.residual is not None,
        }  # fmt: skip
        if not isinstance(matrix, Tensor):
            self._quantised_product(i, matrix, columns, dtype, constants)
            return
        if self.rows <= VECTOR_ROWS:
            self._vector_product(i, matrix, columns, dtype, constants)
            return
        tile = self._row_tile(i)
        if tile is not None:
            self._row_product(i, matrix, columns, dtype, constants, tile)
        else:
            self._library_product(i, matrix, columns, dtype, constants)

    def _matrix(self, weight: Weight) -> Tensor | PreparedWeight:
        matrix = form_of(weight, self._inputs.table_rows.device)
        if not isinstance(matrix, Tensor):
            if self._type is torch.float32:
                raise UnrecordableError("products with quantised weights have kernels for 16-bit activations")
        elif matrix.dtype is not self._type:
            raise UnrecordableError(f"a weight is in {matrix.dtype}, and the step computes in {self._type}")
        return matrix

    def _side(self, tensor: Traced | None, otherwise: Tensor) -> Tensor:
        return otherwise if tensor is None else self._tensor(tensor)

    def _quantised_product(
        self, i: program.Linear, matrix: PreparedWeight, columns: int, dtype: torch.dtype, constants: dict[str, Any]
    ) -> None:
        if self.rows > ROW_PRODUCT_ROWS or (self.rows > VECTOR_ROWS and not takes_scaled(matrix)):
            self._library_product(i, matrix, columns, dtype, constants)
            return
        normed = self._normed.get(id(self._origin(i.x.value)))
        x = normed.x if normed is not None else self._whole(i.x)
        if self.rows > VECTOR_ROWS:
            x = self._cast(x)
        product = Product(
            x, self._take(i.out.value, columns, dtype), self.rows, i.activation,
            None if i.bias is None else self._tensor(i.bias),
            None if i.residual is None else self._tensor(i.residual), normed,
        )  # fmt: skip
        if not isinstance(matrix, QuantisedMatrix) or self.rows <= VECTOR_ROWS:
            self._emit(vector_launches(matrix, product, self._scratch, self._card))
            return
        norm, parts = self._scaled_norm(i.out.value), scaled_parts(matrix, columns, product.gated, self._card)
        if norm is not None and parts:
            product = replace(product, next=self._leave_scaled(norm, columns, parts))
        self._emit(row_launches(matrix, product, self._counters, self._scratch, self._card))

    def _vector_product(
        self, i: program.Linear, matrix: Tensor, columns: int, dtype: torch.dtype, constants: dict[str, Any]
    ) -> None:
        normed = self._normed.get(id(self._origin(i.x.value)))
        x = self._whole(i.x) if normed is None else normed.x
        out = self._take(i.out.value, columns, dtype)
        tile = vector_tile(i.matrix.columns, columns, bool(constants["GATED"]))
        self._launch(
            "product", vector_product, (-(-columns // tile.columns),),
            (x, x if normed is None else normed.gain, matrix, self._side(i.bias, x), self._side(i.residual, x), out,
             0.0 if normed is None else normed.eps),
            {**constants, "ROWS": self.padded, "BN": tile.columns, "BK": tile.depth, "NORM": normed is not None,
             "PDL": self._card.dependent_launch},
            tile.warps, weight_bytes=matrix.nbytes,
        )  # fmt: skip

    def _row_product(
        self, i: program.Linear, matrix: Tensor, columns: int, dtype: torch.dtype, constants: dict[str, Any],
        tile: RowTile,
    ) -> None:  # fmt: skip
        normed = self._normed.get(id(self._origin(i.x.value)))
        x = self._cast(self._whole(i.x)) if normed is None else normed.x
        out = self._take(i.out.value, columns, dtype)
        norm = self._scaled_norm(i.out.value)
        programs = columns // tile.columns
        after = NextNorm(out, out, out) if norm is None else self._leave_scaled(norm, columns, programs)
        partial = out
        if tile.splits > 1:
            partial = self._scratch((tile.splits * (2 if constants["GATED"] else 1), columns * self.padded))
        self._launch(
            "product", row_product, (programs, tile.splits),
            (x, x if normed is None else normed.squares, matrix, self._side(i.bias, x), self._side(i.residual, x),
             after.gain, out, after.scaled, after.squares, partial, self._counters,
             0.0 if normed is None else normed.eps),
            {**constants, "NORM_PARTS": 0 if normed is None else normed.parts, "ROWS": self.padded,
             "BN": tile.columns, "BK": tile.depth, "SPLITS": tile.splits, "SCALED": norm is not None,
             "PREFETCH": tile.prefetch, "PDL": self._card.dependent_launch},
            tile.warps, tile.stages, matrix.nbytes,
        )  # fmt: skip

    def _cast(self, x: Tensor) -> Tensor:
        if x.dtype is self._type:
            return x
        out = self._scratch(x.shape, self._type)
        self.launches.append(Call("cast", out.copy_, (x,)))
        return out

    def _library_product(
        self, i: program.Linear, matrix: Tensor | PreparedWeight, columns: int, dtype: torch.dtype,
        constants: dict[str, Any],
    ) -> None:  # fmt: skip
        x = self._cast(self._whole(i.x))
        norms = self._norms_of(i.out.value)
        places = self._readers.get(id(self._origin(i.out.value)), [])
        plain = not constants["GATED"] and not constants["ACTIVATION"] and i.bias is None
        added = (
            plain and i.residual is not None and len(norms) > 0 and norms[0].residual is None
            and places[0] == self.recording.instructions.index(norms[0])
        )  # fmt: skip
        if plain and i.residual is None:
            self._multiply(x, matrix, self._take(i.out.value, columns, dtype))
            return
        if added:
            product = self._hold(self._workspace.take((self.padded, columns), self._type), i.out.value)
            self._multiply(x, matrix, product)
            self._take(i.out.value, columns, torch.float32)
            assert i.residual is not None
            # The residual must live until the norm adds it.
            self._sums[id(self._origin(i.out.value))] = (product, i.residual)
            self._extend(i.residual.value, i.out.value)
            return
        wide = i.matrix.rows
        product = self._scratch((self.padded, wide), self._type)
        self._multiply(x, matrix, product)
        out = self._take(i.out.value, columns, dtype)
        total = self.rows * columns
        keep = ("N", "GATED", "ACTIVATION", "BIAS", "RESIDUAL")
        self._launch(
            "finish", finish_product, (-(-total // 1024),),
            (product, self._side(i.bias, product), self._side(i.residual, product), out, total),
            {**{name: constants[name] for name in keep}, "BLOCK": 1024},
        )  # fmt: skip

    def _extend(self, value: Value, until: Value) -> None:
        """Keep a value that would be given back now until the last reader of another."""
        kept = self._tensors[id(self._origin(value))]
        for place, tensors in self._held.items():
            if any(tensor is kept for tensor in tensors):
                later = max(place, self._last_reader(until))
                self._held[place] = [tensor for tensor in tensors if tensor is not kept]
                self._held.setdefault(later, []).append(kept)
                return

    def _multiply(self, x: Tensor, matrix: Tensor | PreparedWeight, out: Tensor) -> None:
        if not isinstance(matrix, Tensor):
            self._emit(library_calls(matrix, x, out, None if out.is_meta else workspace_of(out.device)))
            return
        self.launches.append(Call("library product", multiply, (x, matrix, out), weight_bytes=matrix.nbytes))

    # -- attention ---------------------------------------------------------------------------------------------------

    def _prepare_heads(self, i: program.PrepareHeads) -> None:
        attention = self._attention_after(i.q_out.value)
        if attention is None:
            raise UnrecordableError("heads that are stored have a kernel only with the attention that follows")
        if i.q_eps != i.k_eps:
            raise UnrecordableError("queries and keys that are normalised differently have no kernel")
        self._attend(attention, i.q, i.k, i.v, i.q_gain, i.k_gain, i.q_eps, i.table)

    def _store_kv(self, i: program.StoreKV) -> None:
        attention = next(
            (later for later in self.recording.instructions[self._place + 1 :]
             if isinstance(later, program.PagedAttention) and later.cache is i.cache), None,
        )  # fmt: skip
        if attention is None:
            raise UnrecordableError("heads that are stored have a kernel only with the attention that follows")
        self._fused.add(self.recording.instructions.index(attention))
        self._attend(attention, attention.q, i.k, i.v, None, None, 0.0, None)

    def _attention_after(self, queries: Value) -> program.PagedAttention | None:
        places = self._readers.get(id(queries), [])
        attention = self.recording.instructions[places[0]] if len(places) == 1 else None
        if not isinstance(attention, program.PagedAttention):
            return None
        self._fused.add(places[0])
        return attention

    def _paged_attention(self, i: program.PagedAttention) -> None:
        """Without a token to store: the keys of an encoder."""
        self._attend(i, i.q, None, None, None, None, 0.0, None)

    def _attend(
        self, i: program.PagedAttention, q: Traced, k: Traced | None, v: Traced | None, q_gain: Traced | None,
        k_gain: Traced | None, eps: float, table: Traced | None,
    ) -> None:  # fmt: skip
        if i.bias is not None:
            raise UnrecordableError("attention with a bias has no kernel in a decode step")
        heads, head_dim = int(q.shape[1]), int(q.shape[2])
        cache, layout = i.cache, i.cache.layout
        kv_heads = layout.group.num_kv_heads
        stride = int(q.strides[0])
        starts = (0, heads * head_dim, (heads + kv_heads) * head_dim)
        if [t.offset for t in (q, k, v) if t is not None] != list(starts[: 1 if k is None else 3]):
            raise UnrecordableError("queries, keys and values that are no parts of one product have no kernel")
        qkv = self._tensor(q)
        out = self._take(i.out.value, heads * head_dim, self._type)
        group = self._inputs.groups[i.group]
        pages = pages_of(cache)
        partial = self._scratch((self.rows * heads * self.splits, head_dim)) if self.splits > 1 else out
        tops, totals = ((self._scratch((self.rows * heads * self.splits,)) if self.splits > 1 else out) for _ in "ab")
        rotated = 0 if table is None else int(table.shape[1])
        shared = heads // kv_heads
        tile = attention_tile(self.rows)
        other = out
        self._launch(
            "attention", decode_attention, (self.splits, kv_heads, self.rows),
            (qkv, self._side(q_gain, other), self._side(k_gain, other), self._side(table, other), group.seq_lens,
             self._inputs.table_rows, group.tables, *pages.regions, self._side(i.sinks, other),
             out, partial, tops, totals, self._counters,
             stride, group.stride, *pages.bases,
             i.scale, i.softcap or 0.0, eps),
            {"H": heads, "HK": kv_heads, "D": head_dim, "DB": max(16, ceil_power(head_dim)), "ROTATED": rotated,
             "PAGE": layout.block_tokens, "WINDOW": i.window or 0, "SINK_TOKENS": i.sink_tokens,
             "NORM": q_gain is not None, "SOFTCAP": i.softcap is not None, "SINKS": i.sinks is not None,
             "BALANCED": pages.balanced, "NEW": int(k is not None), "GROUP": max(16, ceil_power(shared)),
             "SPLITS": self.splits, "BT": tile.tokens, "STAGES": tile.stages, "PDL": self._card.dependent_launch},
            warps=tile.warps,
        )  # fmt: skip

    def _add(self, i: program.Add) -> None:
        x, y = self._whole(i.x), self._whole(i.y)
        out = self._take(i.out.value, int(i.out.shape[-1]), torch.float32)
        if x.shape != out.shape or y.shape != out.shape:
            raise UnrecordableError(f"a sum of {tuple(x.shape)} and {tuple(y.shape)} has no kernel in a decode step")
        self.launches.append(Call("add", torch.add, (x, y), {"out": out}))

    def _gather_rows(self, i: program.GatherRows) -> None:
        """Every row has logits: nothing to do."""


_LOWERINGS: dict[type[Instruction], Callable[[DecodeLowering, Any], None]] = {
    program.Embed: DecodeLowering._embed,
    program.Linear: DecodeLowering._linear,
    program.Norm: DecodeLowering._norm,
    program.PrepareHeads: DecodeLowering._prepare_heads,
    program.StoreKV: DecodeLowering._store_kv,
    program.PagedAttention: DecodeLowering._paged_attention,
    program.Add: DecodeLowering._add,
    program.GatherRows: DecodeLowering._gather_rows,
}
