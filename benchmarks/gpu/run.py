"""Print the table of a card: its two ceilings, each case's figures beside the floor that they allow, and checks.

    python benchmarks/gpu/run.py [--device cuda] [--sections ceilings,floors,engine,checks] [--model MODEL]

- `ceilings` measures the device: bytes read and multiply-adds per second. Without it, `--bandwidth` (GB/s) and
`--compute` (TFLOP/s) give them.
- `floors`: the best possible figure of each case at these ceilings, beside its target and vLLM's figure for the same
work.
- `engine`: the cases through `Engine.generate`, with random weights of the full shape; the time of a step on the
device, and with every token delivered to Python.
- `checks`: a line per check, see `checks/`; `--model` names a real model for the checks that need one, `--checks`
selects checks. The exit status is 1 if a check fails.

Cases: prompts of 512 tokens, 256 steps, temperature 0.6, end-of-text tokens ignored, prefix cache off; prefill of 64
prompts of 1,024 tokens. A run before the measured one compiles the kernels.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from ceilings import measure_ceilings
from checks.outcome import Outcome, Subject, outcome_lines
from checks.run_checks import CHECKS, run_checks

from antiphon.bench.engine.engine_bench import EngineWorkload, bench_latency, bench_throughput
from antiphon.bench.engine.floors import decode_floor, prefill_floor, shape_program
from antiphon.bench.random_models.random_model import random_model
from antiphon.ops import Device
from antiphon.ops.program import Recording
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.loading.loading import LoadedModel

SECTIONS = ("ceilings", "floors", "engine", "checks")
#: Sections that need the ceilings.
COMPARED = ("floors", "engine")
INPUT, STEPS, TEMPERATURE = 512, 256, 0.6
PREFILL_LENGTH = 1024
program = cache(shape_program)


@dataclass(frozen=True)
class Case:
    """Case of the table, with its targets and vLLM's figure (0.25.1, on an H200) in the case's `unit`.

    The unit is ms per step for `decode`, generated tokens per second for `sequences` (the time includes the prompts),
    and prompt tokens per second for `prefill`.
    """

    shape: str
    kind: str
    rows: int
    must: float
    aim: float
    vllm: float
    in_blocks: bool = False  #: weights in Q4_K instead of bf16

    @property
    def name(self) -> str:
        return f"{self.shape}{' Q4_K' if self.in_blocks else ''} {self.kind} {self.rows}"

    @property
    def unit(self) -> str:
        return "ms/step" if self.kind == "decode" else "tok/s"

    @property
    def _program(self) -> Recording:
        return program(self.shape, in_blocks=self.in_blocks)

    def floor(self, limits: MachineLimits) -> float:
        """Return the best figure that the ceilings allow; for decoding, in the middle of the answer."""
        if self.kind == "decode":
            return decode_floor(self._program, self.rows, INPUT + STEPS // 2, limits) * 1e3
        length = INPUT if self.kind == "sequences" else PREFILL_LENGTH
        seconds = prefill_floor(self._program, self.rows, length, limits)
        if self.kind == "prefill":
            return self.rows * length / seconds
        steps = STEPS * decode_floor(self._program, self.rows, INPUT + STEPS // 2, limits)
        return self.rows * STEPS / (seconds + steps)


CASES = (
    Case("qwen3-0.6b", "decode", 1, 0.65, 0.50, 2.63),
    Case("qwen3-0.6b", "decode", 32, 1.35, 1.1, 3.05),
    Case("qwen3-0.6b", "sequences", 256, 24_500, 27_000, 20_603),
    Case("qwen3-0.6b", "prefill", 64, 380_000, 420_000, 341_628),
    Case("qwen3-8b", "decode", 1, 4.2, 4.0, 5.17),
    Case("qwen3-8b", "decode", 32, 5.3, 5.0, 6.21),
    Case("qwen3-8b", "sequences", 256, 9_500, 10_400, 8_953),
    Case("qwen3-8b", "prefill", 64, 43_000, 46_000, 42_589),
    Case("qwen3-8b", "decode", 1, 2.2, 1.8, 0.0, in_blocks=True),
)


@dataclass
class Results:
    """Measurements by case, in each case's unit."""

    device: str
    limits: MachineLimits
    floors: dict[str, float] = field(default_factory=dict)
    on_device: dict[str, float] = field(default_factory=dict)
    delivered: dict[str, float] = field(default_factory=dict)
    checks: list[Outcome] = field(default_factory=list)


def run_engine(results: Results, cases: list[Case], device: Device) -> None:
    """Run the cases of each model, on the device and with every token delivered to the caller."""
    for shape, in_blocks in dict.fromkeys((case.shape, case.in_blocks) for case in cases):
        loaded = random_model(shape, device=device, in_blocks=in_blocks)
        for case in cases:
            if (case.shape, case.in_blocks) == (shape, in_blocks):
                run_case(results, case, loaded)
        del loaded
        gc.collect()


def run_case(results: Results, case: Case, loaded: LoadedModel) -> None:
    step_tokens = 8192 if loaded.device.torch.type == "cuda" else 2048
    if case.kind == "decode":
        workload = EngineWorkload(INPUT, STEPS, TEMPERATURE, max_step_tokens=step_tokens)
        (figure,) = bench_latency(loaded, workload, [case.rows], rounds=3)["figures"]
        results.on_device[case.name], results.delivered[case.name] = figure["device_ms"], figure["delivered_ms"]
        return
    length, output = (INPUT, STEPS) if case.kind == "sequences" else (PREFILL_LENGTH, 1)
    workload = EngineWorkload(length, output, TEMPERATURE, max_step_tokens=step_tokens)
    (figure,) = bench_throughput(loaded, workload, case.rows, case.rows, warm_runs=2)["figures"]
    tokens = figure["output_tokens"] if case.kind == "sequences" else figure["input_tokens"]
    results.delivered[case.name] = tokens / figure["seconds"]


def table(results: Results, cases: list[Case]) -> str:
    limits = results.limits
    heading = (
        f"{results.device}: reads {limits.bytes_per_second / 1e9:,.1f} GB/s, "
        f"{2 * limits.macs_per_second / 1e12:,.3g} TFLOP/s"
    )
    columns = ("floor", "on device", "delivered", "must", "aim", "vLLM")
    rows = [("case", *columns, "unit")]
    for case in cases:
        measured = (results.floors, results.on_device, results.delivered)
        values = [_figure(found.get(case.name), case.unit) for found in measured]
        targets = [_figure(value, case.unit) for value in (case.must, case.aim, case.vllm)]
        rows.append((case.name, *values, *targets, case.unit))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [heading, ""]
    for name, *cells, unit in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:-1], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *padded, unit]).rstrip())
    return "\n".join(lines)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if unit == "ms/step" else f"{value:,.0f}"


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sections", default="ceilings,floors")
    parser.add_argument("--cases", default="", help="run only cases whose name contains TEXT", metavar="TEXT")
    parser.add_argument("--bandwidth", type=float, help="GB/s, without the section ceilings")
    parser.add_argument("--compute", type=float, help="TFLOP/s in bf16, without the section ceilings")
    parser.add_argument("--model", help="a catalog name, file or folder, for checks of a real model")
    parser.add_argument("--checks", default=",".join(CHECKS), help="which checks; default: all")
    parser.add_argument("--output", type=Path, help="also write the results as JSON")
    arguments = parser.parse_args()
    arguments.sections = arguments.sections.split(",")
    unknown = set(arguments.sections).difference(SECTIONS)
    if unknown:
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are: {', '.join(SECTIONS)}")
    arguments.checks = arguments.checks.split(",")
    unknown = set(arguments.checks).difference(CHECKS)
    if unknown:
        parser.error(f"unknown checks: {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
    needs_ceilings = "ceilings" not in arguments.sections and set(COMPARED).intersection(arguments.sections)
    if needs_ceilings and not (arguments.bandwidth and arguments.compute):
        parser.error("without the section ceilings, give --bandwidth and --compute")
    return arguments


def main() -> None:
    arguments = parse()
    device = torch.device(arguments.device)
    limits = MachineLimits((arguments.bandwidth or 0.0) * 1e9, (arguments.compute or 0.0) * 1e12 / 2, 0.0)
    if "ceilings" in arguments.sections:
        limits = measure_ceilings(device)
    name = device_name(device) if "ceilings" in arguments.sections else "given ceilings"
    results = Results(name, limits)
    cases = [case for case in CASES if arguments.cases in case.name]
    if "floors" in arguments.sections:
        results.floors = {case.name: case.floor(limits) for case in cases}
    if "checks" in arguments.sections:
        results.checks = list(run_checks(Subject(Device.parse(arguments.device), arguments.model), arguments.checks))
    if "engine" in arguments.sections:
        run_engine(results, cases, Device.parse(arguments.device))
    if arguments.output is not None:
        content: dict[str, Any] = asdict(results) | {"cases": [asdict(case) for case in cases]}
        arguments.output.write_text(json.dumps(content, indent=2) + "\n")
    if set(COMPARED).intersection(arguments.sections) or not results.checks:
        print(table(results, cases))
    print("\n".join(outcome_lines(results.checks)))
    if any(outcome.passed is False for outcome in results.checks):
        sys.exit(1)


if __name__ == "__main__":
    main()
