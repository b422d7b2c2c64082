"""Minimum time that a machine needs for a step of a recorded program, from its bytes and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from antiphon.aligned import aligned
from antiphon.counted import counted
from antiphon.ops.program.dimension import as_dim, product
from antiphon.ops.program.instructions import AttentionInstruction, Instruction, PagedAttentionInstruction
from antiphon.ops.program.profile import MachineLimits
from antiphon.ops.program.recording import Recording
from antiphon.weights.types import TORCH_DTYPES

#: Symbols in the sizes of a decoding step: tokens, requests, logit rows.
STEP_SYMBOLS = frozenset("TRL")
HEADINGS = ("INSTRUCTION", "COUNT", "MB", "MMAC", "AT BEST µS", "SHARE", "LIMITED BY")


@dataclass(frozen=True)
class UniformStep:
    """Sizes of a step that computes `tokens` tokens for each of `rows` sequences, after `context` tokens.

    `states` is the number of encoder states of each sequence, which a decoder's cross-attention reads.
    """

    rows: int = 1
    context: int = 512
    tokens: int = 1
    states: int = 0

    def symbols(self) -> dict[str, int]:
        return {"T": self.rows * self.tokens, "R": self.rows, "L": self.rows, "B": self.rows, "S": self.states}

    def causal(self, window: int | None, sink_tokens: int = 0) -> tuple[int, int]:
        """Count pairs of query and key, and keys read, in causal attention: a query sees its window and the sinks."""
        first, last = self.context + 1, self.context + self.tokens
        most = last if window is None else window + sink_tokens
        growing = max(0, min(last, most) - first + 1)  # queries that see every earlier token
        pairs = growing * (2 * first + growing - 1) // 2 + (self.tokens - growing) * most
        return self.rows * pairs, self.rows * min(last, most + self.tokens - 1)


@dataclass(frozen=True)
class Cost:
    """Bytes of weights, keys and values, and multiply-accumulates. Activations are not counted: they stay in caches."""

    bytes: float
    macs: float
    macs_per_second: float

    def seconds_of_bytes(self, limits: MachineLimits) -> float:
        return self.bytes / limits.bytes_per_second

    @property
    def seconds_of_operations(self) -> float:
        return self.macs / self.macs_per_second

    def seconds(self, limits: MachineLimits) -> float:
        """Return the minimum seconds, limited by either bytes or operations."""
        return max(self.seconds_of_bytes(limits), self.seconds_of_operations)


@dataclass
class KindFloor:
    """Minimum time of all instructions of one kind, named as in `KindTime`."""

    kind: str
    count: int = 0
    bytes: float = 0.0
    macs: float = 0.0
    seconds: float = 0.0
    seconds_of_bytes: float = 0.0  # part of `seconds`: instructions that bytes limit

    @property
    def bound(self) -> str:
        return "bytes" if self.seconds_of_bytes > self.seconds / 2 else "operations"


def has_floor(recording: Recording) -> bool:
    """Return whether a recording is of a decoding step: tokens, requests and logit rows determine its sizes."""
    return STEP_SYMBOLS.issuperset(recording.symbols)


def step_floor(recording: Recording, size: UniformStep, limits: MachineLimits) -> list[KindFloor]:
    """Compute the minimum time of a step by kind of instruction, longest first; kinds without cost are left out."""
    kinds: dict[str, KindFloor] = {}
    for instruction in recording.instructions:
        cost = instruction_cost(instruction, size, limits)
        if not cost.bytes and not cost.macs:
            continue
        weight = instruction.weight
        name = instruction.operation + ("" if weight is None else " " + "+".join(weight.bytes_by_type))
        reading, computing = cost.seconds_of_bytes(limits), cost.seconds_of_operations
        kind = kinds.setdefault(name, KindFloor(name))
        kind.count += 1
        kind.bytes += cost.bytes
        kind.macs += cost.macs
        kind.seconds += max(reading, computing)
        kind.seconds_of_bytes += reading if reading >= computing else 0.0
    return sorted(kinds.values(), key=lambda kind: -kind.seconds)


def _can_use_int8(instruction: Instruction) -> bool:
    """Return whether a backend may multiply in int8: it already does, or the weight is quantised."""
    weight = instruction.weight
    is_quantised = weight is not None and any(part.type not in TORCH_DTYPES for part in weight.parts)
    return instruction.is_int8 or is_quantised


def instruction_cost(instruction: Instruction, size: UniformStep, limits: MachineLimits) -> Cost:
    symbols = size.symbols()
    rows = as_dim(instruction.rows).value(symbols)
    pairs, keys = _attended(instruction, size, symbols)
    vectors = sum(
        as_dim(product(tensor.shape)).value(symbols) * tensor.dtype.itemsize for tensor in instruction.constants()
    )
    num_bytes = instruction.weight_bytes() + vectors + rows * instruction.bytes_per_row()
    macs = rows * (instruction.macs_per_row() + instruction.elementwise_per_row()) + pairs * instruction.macs_per_pair()
    rate = limits.macs_per_second
    if _can_use_int8(instruction) and limits.int8_macs_per_second:
        rate = limits.int8_macs_per_second
    return Cost(num_bytes + keys * instruction.bytes_per_key(), macs, rate)


def _attended(instruction: Instruction, size: UniformStep, symbols: Mapping[str, int]) -> tuple[int, int]:
    """Count pairs of query and key, and keys read; (0, 0) without attention."""
    if isinstance(instruction, PagedAttentionInstruction):
        if instruction.causal:
            return size.causal(instruction.window, instruction.sink_tokens)
        return size.rows * size.tokens * size.states, size.rows * size.states
    if isinstance(instruction, AttentionInstruction):
        length = as_dim(instruction.q.shape[0]).value(symbols) // size.rows
        if instruction.causal:
            return UniformStep(size.rows, 0, length).causal(None)
        return size.rows * length * length, size.rows * length
    return 0, 0


def floor_lines(name: str, recording: Recording, size: UniformStep, limits: MachineLimits) -> Iterator[str]:
    """Yield a heading and a table of a step's minimum time."""
    kinds = step_floor(recording, size, limits)
    total = sum(kind.seconds for kind in kinds)
    int8 = f", {limits.int8_macs_per_second / 1e9:,.1f} of int8" if limits.int8_macs_per_second else ""
    yield (
        f"least time of {name} for {counted(size.rows, 'row')} after {counted(size.context, 'token')}, at "
        f"{limits.bytes_per_second / 1e9:,.1f} GB/s and {limits.macs_per_second / 1e9:,.1f} GMAC/s{int8}"
    )
    rows = [HEADINGS]
    for kind in kinds:
        share = f"{kind.seconds / total:.1%}" if total else ""
        figures = (f"{kind.bytes / 1e6:,.3f}", f"{kind.macs / 1e6:,.3f}", f"{kind.seconds * 1e6:,.1f}", share)
        rows.append((kind.kind, f"{kind.count}", *figures, kind.bound))
    num_bytes, macs = sum(kind.bytes for kind in kinds), sum(kind.macs for kind in kinds)
    rows.append(("all", "", f"{num_bytes / 1e6:,.3f}", f"{macs / 1e6:,.3f}", f"{total * 1e6:,.1f}", "", ""))
    yield from aligned(rows, left={0, 6})
