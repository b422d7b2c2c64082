"""Executor without a model: keeps the arena's memory in Python and checks every slot that a query would read.

Instead of keys and values, a block holds per position a number that depends on all tokens up to it. A step writes the
numbers of its tokens through the rows' tables, then reads back and compares everything its queries can see (the full
sequence, a window, the sinks). The sampled token depends on the seed and all tokens so far, so outputs are known in
advance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from antiphon.engine.kv.arena import UNIT_BYTES
from antiphon.engine.kv.manager import GroupSpec
from antiphon.engine.plan import BlockCopy, RowSetup, StepPlan, StepResult, SwapIn, SwapOut
from antiphon.engine.request import Request

VOCABULARY = 64
MASK = (1 << 61) - 1


class InjectedError(RuntimeError):
    """Failure that a test asked for."""


def advance(state: int, token: int) -> int:
    """Return the number of a position, given the previous position's number and the token."""
    return ((state ^ (token + 1)) * 0x9E3779B97F4A7C15 + 0x7F4A7C15) & MASK


def draw(state: int, seed: int) -> int:
    """Return the next token after a position with this number."""
    return (advance(state, seed + VOCABULARY) >> 20) % VOCABULARY


def first_state(salt: str) -> int:
    return sum((index + 1) * byte for index, byte in enumerate(salt.encode())) + 1


class Truth:
    """Correct tokens of a request, with the number of every position."""

    def __init__(self, prompt: Sequence[int], seed: int, salt: str = "") -> None:
        self.tokens: list[int] = []
        self.states: list[int] = []
        self.seed = seed
        self._state = first_state(salt)
        for token in prompt:
            self._append(token)

    def _append(self, token: int) -> None:
        self._state = advance(self._state, token)
        self.tokens.append(token)
        self.states.append(self._state)

    def reach(self, length: int) -> None:
        while len(self.tokens) < length:
            self._append(draw(self._state, self.seed))


def expected_output(request: Request, ends: Callable[[int], bool] = lambda token: False) -> list[int]:
    """Return the output that the request must have if it is not aborted, whatever happens around it."""
    truth = Truth(request.prompt, request.params.seed, request.cache_salt)
    output: list[int] = []
    while True:
        truth.reach(len(request.prompt) + len(output) + 1)
        output.append(truth.tokens[-1])
        if output[-1] in request.stop_ids or ends(output[-1]) or len(truth.tokens) >= request.limit:
            return output


@dataclass(slots=True, eq=False)
class _Cell:
    """Content of a block, with its owner."""

    owner: tuple[str, int]  # model, group
    values: list[int | None]


@dataclass(slots=True)
class _Row:
    request: Request
    tables: list[list[int]]
    last_token: int


class MemoryDevice:
    """Memory of the arena, shared by the executors of all models; their steps run in the order of submission."""

    def __init__(self) -> None:
        self.units: dict[int, _Cell] = {}
        self.queue: deque[_Step] = deque()

    def cell(self, entry: int, num_units: int) -> _Cell | None:
        """Return a block's cell, or None if its memory is unwritten or was written as part of another block."""
        cell = self.units.get(entry)
        for unit in range(entry + 1, entry + num_units):
            if self.units.get(unit) is not cell:
                return None
        larger = cell is not None and cell in (self.units.get(entry - 1), self.units.get(entry + num_units))
        return None if larger else cell

    def put(self, entry: int, num_units: int, cell: _Cell | None) -> None:
        for unit in range(entry, entry + num_units):
            if cell is None:
                self.units.pop(unit, None)
            else:
                self.units[unit] = cell

    def run_until(self, step: _Step) -> None:
        while not step.is_run:
            self.queue.popleft().run()


@dataclass(slots=True)
class MemoryCounters:
    """Work that the executor has done."""

    steps: int = 0
    entries: int = 0
    tokens: int = 0
    copied_bytes: int = 0
    swapped_out_bytes: int = 0
    swapped_in_bytes: int = 0


@dataclass(slots=True, eq=False)
class _Step:
    """Submitted step with all that the host knew at submission; it runs in queue order."""

    executor: MemoryExecutor
    plan: StepPlan
    rows: list[int]
    tokens: list[list[int]]
    setups: list[tuple[int, RowSetup, int]]  # row, setup, newest token
    fails: bool
    is_chosen: bool = False
    is_run: bool = False
    value: StepResult | None = None
    error: Exception | None = None

    def choose(self) -> None:
        assert not self.is_chosen, "tokens are drawn twice"
        self.is_chosen = True
        before = self.executor.in_flight[: self.executor.in_flight.index(self)]
        assert not (self.plan.needs_commit and before), "tokens are drawn before the commit that they need"

    def done(self) -> bool:
        return self.is_run

    def run(self) -> None:
        self.is_run = True
        try:
            self.value = self.executor.run(self)
        except Exception as error:
            self.error = error

    def result(self) -> StepResult:
        assert self.is_chosen, "the result of a step whose tokens were not drawn"
        self.executor.in_flight.remove(self)
        self.executor.device.run_until(self)
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value


@dataclass(eq=False)
class MemoryExecutor:
    """Executor of plans in simulated memory. With `lazy`, a step runs only when its or a later result is needed."""

    device: MemoryDevice
    model: str
    groups: list[GroupSpec]
    block_tokens: int
    lazy: bool = False
    counters: MemoryCounters = field(default_factory=MemoryCounters)
    host: dict[str, list[_Cell | None]] = field(default_factory=dict)
    rows: dict[int, _Row] = field(default_factory=dict)
    in_flight: list[_Step] = field(default_factory=list)
    num_late_plans: int = 0
    fails_next: bool = False
    fails_if: Callable[[StepPlan], bool] = lambda plan: False
    on_step: Callable[[StepPlan], None] | None = None

    def __post_init__(self) -> None:
        self._truths: dict[int, tuple[Request, Truth]] = {}
        self._broken: dict[int, Request] = {}  # requests with a failed step: no longer checked

    # -- the executor's contract --------------------------------------------------------------------------------

    def submit(self, plan: StepPlan) -> _Step:
        decodes = plan.num_decodes
        tokens: list[list[int]] = [[] for _ in range(decodes)]
        for request, start, count in zip(
            plan.requests[decodes:], plan.starts[decodes:], plan.counts[decodes:], strict=True
        ):
            tokens.append(request.tokens[start : start + count])
            assert len(tokens[-1]) == count, f"{request.id}: tokens {start} to {start + count} are not known yet"
        assert plan.counts[:decodes] == [1] * decodes and all(plan.samples[:decodes])
        assert plan.num_tokens == sum(plan.counts)
        rows = [request.row for request in plan.requests]
        assert len(set(rows)) == len(rows) and min(rows, default=0) >= 0, "requests of a step share a row or have none"
        setups = [(setup.request.row, setup, setup.request.tokens[-1]) for setup in plan.row_setups]
        assert all(row >= 0 for row, _, _ in setups), "a row is set up for a request without one"
        step = _Step(self, plan, rows, tokens, setups, self.fails_next or self.fails_if(plan))
        self.fails_next = False
        self.device.queue.append(step)
        assert all(other.is_chosen for other in self.in_flight), "a step is launched before the tokens that it computes"
        self.in_flight.append(step)
        self.num_late_plans += plan.needs_commit
        if self.on_step is not None:
            self.on_step(plan)
        if not self.lazy:
            self.device.run_until(step)
            if step.error is not None:
                self.in_flight.remove(step)
                raise step.error
        return step

    def close(self) -> None:
        self.host.clear()
        self.rows.clear()
        self._truths.clear()

    # -- a step -------------------------------------------------------------------------------------------------

    def run(self, step: _Step) -> StepResult:
        plan = step.plan
        for move in plan.moves:
            self._move(move)
        for key in plan.dropped_keys:
            del self.host[key]
        for row, group, index, entry in plan.table_updates:
            table = self.rows[row].tables[group]
            table.extend([0] * (index + 1 - len(table)))
            table[index] = entry
        for row, setup, token in step.setups:
            self.rows[row] = _Row(setup.request, [list(table) for table in setup.tables], token)
        if step.fails:
            self._broken.update((id(request), request) for request in plan.requests)
            raise InjectedError("injected")
        self._forward(step)
        self.counters.steps += bool(plan)
        self.counters.entries += len(plan.requests)
        self.counters.tokens += plan.num_tokens
        return StepResult([self._sample(step, entry) for entry, samples in enumerate(plan.samples) if samples])

    def _move(self, move: BlockCopy | SwapOut | SwapIn) -> None:
        device = self.device
        if isinstance(move, BlockCopy):
            cell = device.cell(move.source, move.num_bytes // UNIT_BYTES)
            device.put(move.target, move.num_bytes // UNIT_BYTES, _copy(cell))
            self.counters.copied_bytes += move.num_bytes
        elif isinstance(move, SwapOut):
            assert move.key not in self.host, f"{move.key} is in host memory already"
            self.host[move.key] = [_copy(device.cell(entry, size // UNIT_BYTES)) for entry, size in move.spans]
            self.counters.swapped_out_bytes += sum(size for _, size in move.spans)
        else:
            for (entry, size), cell in zip(move.spans, self.host.pop(move.key), strict=True):
                device.put(entry, size // UNIT_BYTES, cell)
            self.counters.swapped_in_bytes += sum(size for _, size in move.spans)

    def _forward(self, step: _Step) -> None:
        plan = step.plan
        for entry, request in enumerate(plan.requests):
            if id(request) in self._broken:
                continue
            start, count, row = plan.starts[entry], plan.counts[entry], self.rows[step.rows[entry]]
            assert row.request is request, f"row {step.rows[entry]} belongs to {row.request.id}, not {request.id}"
            truth = self._truth(request)
            truth.reach(start + count)
            computed = step.tokens[entry] or [row.last_token]
            wanted = truth.tokens[start : start + count]
            assert computed == wanted, f"{request.id}: computes {computed} at {start}, not {wanted}"
            self._write(request, row, truth, start, count)
        for entry, request in enumerate(plan.requests):
            if id(request) not in self._broken:
                self._check(request, self.rows[step.rows[entry]], plan.starts[entry], plan.counts[entry])

    def _truth(self, request: Request) -> Truth:
        known = self._truths.get(id(request))
        if known is None:
            known = (request, Truth(request.prompt, request.params.seed, request.cache_salt))
            self._truths[id(request)] = known
        return known[1]

    def _write(self, request: Request, row: _Row, truth: Truth, start: int, count: int) -> None:
        size = self.block_tokens
        for group, spec in enumerate(self.groups):
            if spec.cross:
                if start == 0:
                    content = truth.states[request.num_prompt_tokens - 1]
                    for position in range(request.cross_tokens):
                        self._cell(row, group, position // size).values[position % size] = content
                continue
            for position in range(start, start + count):
                self._cell(row, group, position // size).values[position % size] = truth.states[position]

    def _cell(self, row: _Row, group: int, index: int) -> _Cell:
        """Return the block to write to; start an empty block if the memory belonged to another group, model or load."""
        entry, units = row.tables[group][index], self.groups[group].block_bytes // UNIT_BYTES
        cell = self.device.cell(entry, units)
        if cell is None or cell.owner != (self.model, group) or len(cell.values) != self.block_tokens:
            cell = _Cell((self.model, group), [None] * self.block_tokens)
            self.device.put(entry, units, cell)
        return cell

    def _check(self, request: Request, row: _Row, start: int, count: int) -> None:
        """Raise unless every position visible to these queries holds the correct number."""
        size, end = self.block_tokens, start + count
        states = self._truth(request).states
        for group, spec in enumerate(self.groups):
            units = spec.block_bytes // UNIT_BYTES
            if spec.cross:
                spans = [(0, request.cross_tokens)]
                states_of = [states[request.num_prompt_tokens - 1]] * request.cross_tokens
            elif spec.window is None:
                spans, states_of = [(0, end)], states
            else:
                first = max(0, start - spec.window + 1)
                spans, states_of = [(0, min(spec.sink_tokens, first)), (first, end)], states
            for begin, stop in spans:
                for index in range(begin // size, -(-stop // size)):
                    low, high = max(begin, index * size), min(stop, (index + 1) * size)
                    if low >= high:
                        continue
                    cell = self.device.cell(row.tables[group][index], units)
                    assert cell is not None and cell.owner == (self.model, group), (
                        f"{request.id}: block {index} of group {group} is not its own any more"
                    )
                    held = cell.values[low - index * size : high - index * size]
                    assert held == states_of[low:high], (
                        f"{request.id}: group {group} holds other tokens between {low} and {high}"
                    )

    def _sample(self, step: _Step, entry: int) -> int:
        plan, request = step.plan, step.plan.requests[entry]
        row = self.rows[step.rows[entry]]
        if id(request) in self._broken:
            return 0
        truth = self._truth(request)
        length = plan.starts[entry] + plan.counts[entry]
        truth.reach(length + 1)
        row.last_token = truth.tokens[length]
        return row.last_token


def _copy(cell: _Cell | None) -> _Cell | None:
    return None if cell is None else _Cell(cell.owner, list(cell.values))
