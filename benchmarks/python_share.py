"""Measure the share of a decode step outside native code, from the start of a step to the start of the next.

    python benchmarks/python_share.py smollm2-135m --streams 1 8 32

Also prints the costs of an empty instruction of a program, of a program's call and of a parallel instruction.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import torch

from antiphon import Engine, SamplingParams
from antiphon.engine.telemetry import StepRecord
from antiphon.ops.native.extension import extension
from antiphon.ops.threads import default_threads


def program_costs() -> None:
    empty = extension().Program(0, [], [], [])
    for _ in range(1000):
        empty.empty()
    nanoseconds = min(empty.run([], [], [], 1, 0) for _ in range(200)) / 1000
    alone = extension().Program(0, [], [], [])
    calls = []
    for _ in range(2000):
        begun = time.perf_counter()
        alone.run([], [], [], 1, 0)
        calls.append(time.perf_counter() - begun)
    print(f"an empty instruction: {nanoseconds:.1f} ns; a program's call: {statistics.median(calls) * 1e6:.1f} us")
    for rows in (128, 256):  # one task, and two tasks
        x = torch.zeros(3, rows, 128)
        program = extension().Program(3, [], [], [])
        for _ in range(200):
            program.add((0, 0), 128, (1, 0), 128, 128, (2, 0), (0, -1, -1, rows), (0, -1, -1, rows), 0)
        addresses = [part.data_ptr() for part in x]
        for threads in sorted({1, default_threads()}):
            taken = min(program.run([], addresses, [], threads, 0) for _ in range(100)) / 200
            print(f"a sum of {rows * 128} floats on {threads} threads: {taken / 1000:.2f} us")


def measure(model: str, streams: int, tokens: int, record: bool) -> None:
    prompts = [[(i * 37 + j * 11) % 1000 + 10 for j in range(32)] for i in range(streams)]
    params = SamplingParams(max_tokens=tokens, ignore_eos=True)
    with Engine(model, max_running=max(streams, 1), record=record) as engine:
        engine.generate(prompts, SamplingParams(max_tokens=4, ignore_eos=True))
        engine._core.telemetry.steps.clear()
        engine.generate(prompts, params)
        steps = list(engine._core.telemetry.steps)
    decodes = [step for step in steps if step.decode_tokens == streams and not step.prefill_tokens]
    pairs = [(a, b) for a, b in pairwise(decodes) if b.index == a.index + 1]
    periods = [later.start - step.start for step, later in pairs]
    outside = [period - step.native_seconds for (step, _), period in zip(pairs, periods, strict=True)]
    share = statistics.median(part / whole for part, whole in zip(outside, periods, strict=True))
    print(
        f"{streams} streams, {'recorded' if record else 'operation by operation'}: a step of "
        f"{statistics.median(periods) * 1e3:.2f} ms, {streams / statistics.median(periods):.1f} tok/s"
        + (f"; outside native code {statistics.median(outside) * 1e6:.0f} us, {100 * share:.1f} %" if record else "")
        + "; "
        + ", ".join(f"{part} {_median(part, [step for step, _ in pairs]):.0f} us" for part in pairs[0][0].parts)
    )


def _median(part: str, steps: list[StepRecord]) -> float:
    return statistics.median(step.parts.get(part, 0.0) for step in steps) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="smollm2-135m")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    program_costs()
    for streams in options.streams:
        for record in (False, True):
            measure(options.model, streams, options.tokens, record)


if __name__ == "__main__":
    main()
