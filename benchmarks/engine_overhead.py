"""Measure the engine loop's own cost: plan, batch build, commit and delivery with a model that costs nothing.

    python benchmarks/engine_overhead.py [--sequences 256] [--steps 300] [--rounds 5]

Prints microseconds per sequence and step, by part, as the median of several rounds. Sampling is left out: the stand-in
for a model returns its tokens at once.
"""

from __future__ import annotations

import argparse
import statistics
import time

from antiphon.engine.core import EngineCore
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.policies.fcfs import FirstComeFirstServed
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import SchedulerConfig
from antiphon.executor.handle import DoneHandle
from antiphon.executor.rows import RowStore
from antiphon.executor.step_batch import build_step
from antiphon.ops import CacheGroup, CacheKind, CacheLayout
from antiphon.runtime.text.output import SampleOutput
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer

BLOCK_TOKENS = 16
MAX_TOKENS = 4096
PARTS = ("plan", "build", "commit")


class WordTokenizer(Tokenizer):
    """Tokenizer with a word per token, as cheap as a real one, which also looks up token bytes in a list."""

    special = SpecialTokens()
    add_bos = False
    strips_leading_space = False
    vocab_size = 1000

    def __init__(self) -> None:
        self._bytes = [f" word{index}".encode() for index in range(self.vocab_size)]

    def encode(self, text: str, *, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        return self._bytes[token_id]

    def id_of(self, token_text: str) -> int | None:
        return None


class FreeExecutor:
    """Executor that builds the whole batch and then pretends to have run it."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        self._rows.apply(plan)
        step = build_step(plan, self._rows)
        built = time.perf_counter()
        tokens = [7] * len(step.sample_entries)
        self._rows.last_token[step.rows] = 7
        return DoneHandle(StepResult(tokens, timings={"build": built - begun}))

    def close(self) -> None:
        pass


def free_core(sequences: int, steps: int) -> tuple[EngineCore, list[SampleOutput]]:
    """Return an engine whose sequences all decode, with room for `steps` steps, and the readers of its outputs."""
    group = CacheGroup("self", CacheKind.FULL, 1, 1, 64)
    layout = CacheLayout(group, BLOCK_TOKENS)
    arena = SlabArena(layout.block_bytes * sequences * 64, layout.block_bytes * 64)
    kv = KVManager(arena, [GroupSpec("self", layout.block_bytes)], BLOCK_TOKENS)
    config = SchedulerConfig(max_running=sequences, max_waiting=sequences, max_step_tokens=sequences * 32)
    scheduler = Scheduler("free", kv, FirstComeFirstServed(), config, MAX_TOKENS)
    core = EngineCore()
    core.add_model(ModelSlot("free", scheduler, FreeExecutor(RowStore(sequences, [layout], [MAX_TOKENS]))))
    tokenizer = WordTokenizer()
    outputs = []
    for index in range(sequences):
        # Prompts differ in length, so that block boundaries are not all in the same step.
        request = Request(str(index), "free", [index] * (1 + index % 31), SamplingParams(max_tokens=steps + 50))
        outputs.append(SampleOutput(tokenizer, request, lambda output: None))
        core.add(request)
    while scheduler.waiting or core.telemetry.num_steps < 3:
        core.step()
    return core, outputs


def one_round(sequences: int, steps: int) -> dict[str, float]:
    """Return microseconds per sequence and step of each part, and of the whole loop in wall time."""
    core, outputs = free_core(sequences, steps)
    first = core.telemetry.num_steps
    begun = time.perf_counter()
    for _ in range(steps):
        core.step()
        for output in outputs:
            output.take()
    wall = time.perf_counter() - begun
    records = list(core.telemetry.steps)[first:]
    assert all(record.decode_tokens == sequences for record in records)
    scale = 1e6 / sequences
    figures = {part: statistics.median(record.parts[part] for record in records) * scale for part in PARTS}
    return figures | {"whole loop, reading included": wall / steps * scale}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=256)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rounds = [one_round(arguments.sequences, arguments.steps) for _ in range(arguments.rounds)]
    print(f"{arguments.sequences} sequences, {arguments.steps} steps, median of {arguments.rounds} rounds")
    for name in rounds[0]:
        print(f"{name:32} {statistics.median(figures[name] for figures in rounds):6.2f} µs per sequence")


if __name__ == "__main__":
    main()
