"""Compare Antiphon with llama.cpp on the same CPU, with the same files and threads, in turns.

    python benchmarks/cpu.py --llama DIR [--models smollm2-135m …] [--threads 2] [--rounds 3] [--cases one,prefill,8]

DIR holds llama.cpp's `llama-bench` and `llama-batched-bench`, built for this machine. For each case, llama.cpp runs
with the best of several settings (flash attention on or off, KV of fp16 or q8_0), chosen in a first round. Then both
run in turns; printed are medians and their ratio. Tokens per second count all streams together. For one stream,
Antiphon's weight bandwidth is printed as a share of the machine's, measured on a buffer of the same size in the same
run.

    one      128 tokens after a prompt of 128, one stream
    prefill  a prompt of 512 tokens
    8, 32    64 tokens after prompts of 128, in 8 or 32 streams
    deep     32 tokens after a prompt of 4,096, one stream; deep8: eight streams that share these 4,096
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SETTINGS = {"fa, f16": (1, "f16"), "no fa, f16": (0, "f16"), "fa, q8_0": (1, "q8_0")}


@dataclass(frozen=True)
class Case:
    """Streams that generate `output` tokens each after a prompt; with 0, the prompt itself is measured."""

    streams: int
    prompt: int
    output: int
    shared_prompt: bool = False


CASES = {
    "one": Case(1, 128, 128),
    "prefill": Case(1, 512, 0),
    "8": Case(8, 128, 64),
    "32": Case(32, 128, 64),
    "deep": Case(1, 4096, 32),
    "deep8": Case(8, 4096, 32, shared_prompt=True),
}


def llama_rate(folder: Path, file: Path, case: Case, setting: str, threads: int) -> float:
    """Return llama.cpp's tokens per second in a case."""
    flash, kv = SETTINGS[setting]
    common = ["-m", str(file), "-t", str(threads), "-ctk", kv, "-ctv", kv]
    if case.output == 0:
        command = [
            str(folder / "llama-bench"),
            *common,
            "-fa",
            str(flash),
            "-p",
            str(case.prompt),
            "-n",
            "0",
            "-r",
            "2",
        ]
        rows = json.loads(_output([*command, "-o", "json"]))
        return float(rows[0]["avg_ts"])
    context = case.streams * (case.output + (0 if case.shared_prompt else case.prompt)) + case.prompt + 256
    command = [str(folder / "llama-batched-bench"), *common, "-tb", str(threads), "-fa", "on" if flash else "off"]
    command += ["-c", str(context), "-b", "2048", "-ub", "512", "-npp", str(case.prompt), "-ntg", str(case.output)]
    command += [
        "-npl",
        str(case.streams),
        "--output-format",
        "jsonl",
        *(["-pps", "-kvu"] if case.shared_prompt else []),
    ]
    rows = [json.loads(line) for line in _output(command).splitlines() if line.startswith("{")]
    return float(rows[-1]["speed_tg"])


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


class Ours:
    """Worker process that keeps the model loaded and measures a case at a time."""

    def __init__(self, model: str, threads: int, key_value: str) -> None:
        command = [sys.executable, __file__, "--worker", model, "--kv", key_value, "--threads", str(threads)]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._ask(None)

    def _ask(self, question: object) -> dict[str, float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the worker ended with {self._process.wait()}")
        return dict(json.loads(line))

    def rate(self, name: str) -> dict[str, float]:
        return self._ask(name)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def work(model: str, key_value: str, threads: int) -> None:
    """Answer each case named on a line of stdin with its tokens per second."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    from antiphon import Engine

    random_ = random.Random(0)
    with Engine(model, kv_bytes=3 << 30, key_type=key_value, value_type=key_value, prefix_caching=True) as engine:
        for line in sys.stdin:
            name = json.loads(line)
            found = measure(engine, CASES[name], random_) if name else {}
            if name == "one":
                found |= bandwidth(engine, found["rate"])
            print(json.dumps(found), flush=True)


def bandwidth(engine, rate: float) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """Return the bytes of weights read per second at `rate` steps per second, and the machine's limit."""
    from antiphon.ops.native.program.limits import measure_limits
    from antiphon.ops.program.describe import totals

    (slot,) = engine._core.slots.values()
    size = totals(slot.executor.program.recording).weight_bytes
    return {"bytes_per_second": rate * size, "limit": measure_limits(size).bytes_per_second}


def measure(engine, case: Case, random_: random.Random) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """Return the tokens per second of a case. Decoding counts only steps in which all streams advance."""
    from antiphon import SamplingParams
    from trace_steps import trace_steps

    first = [random_.randrange(1000, 30000) for _ in range(case.prompt)]
    prompts = [first]
    for _ in range(1, case.streams):
        prompts.append(first if case.shared_prompt else [random_.randrange(1000, 30000) for _ in range(case.prompt)])
    if case.shared_prompt:
        prompts = [[*first, random_.randrange(1000, 30000)] for _ in prompts]
    if case.output == 0:
        started = time.perf_counter()
        engine.generate(prompts, SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True))
        return {"rate": case.prompt / (time.perf_counter() - started)}
    # Cache the prompts first, so that all streams begin to decode in the same step.
    for prompt in prompts[: 1 if case.shared_prompt else None]:
        engine.generate([prompt], SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True))
    began = time.perf_counter()
    engine.generate(prompts, SamplingParams(temperature=0.0, max_tokens=case.output, ignore_eos=True))
    steps = trace_steps(engine, since=began * 1e6)
    whole = [s for s in steps if s["args"]["decode_tokens"] == case.streams and not s["args"]["prefill_tokens"]]
    if len(whole) < case.output // 2:
        sys.exit(f"{case}: only {len(whole)} of {len(steps)} steps advanced all streams")
    seconds = (whole[-1]["ts"] + whole[-1]["dur"] - whole[0]["ts"]) / 1e6
    return {"rate": case.streams * len(whole) / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama", type=Path, help="folder of llama.cpp's binaries")
    parser.add_argument("--models", nargs="+", default=["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kv", default="fp16", help="our KV type")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.kv, options.threads)
        return
    if options.llama is None or not (options.llama / "llama-bench").exists():
        parser.error(f"--llama: there is no llama-bench in {options.llama}")

    from antiphon.weights.catalog.resolve import resolve

    for model in options.models:
        file = resolve(model).path
        print(f"\n{model}: {file.stat().st_size / 1e6:.0f} MB, {options.threads} threads, KV {options.kv}")
        print(
            f"{'case':8} {'ours':>9} {'llama.cpp':>10} {'ratio':>6}   its best setting, all of ours, all of its",
            flush=True,
        )
        ours = Ours(model, options.threads, options.kv)
        for name in options.cases.split(","):
            case = CASES[name]
            tried = {setting: llama_rate(options.llama, file, case, setting, options.threads) for setting in SETTINGS}
            best = max(tried, key=lambda setting: tried[setting])
            ours.rate(name)
            found, theirs = [], [tried[best]]
            for round_ in range(options.rounds):
                found.append(ours.rate(name))
                if round_ + 1 < options.rounds:
                    theirs.append(llama_rate(options.llama, file, case, best, options.threads))
            mine = [answer["rate"] for answer in found]
            us, them = statistics.median(mine), statistics.median(theirs)
            details = f"{best}; {' '.join(f'{x:.1f}' for x in mine)}; {' '.join(f'{x:.1f}' for x in theirs)}"
            print(f"{name:8} {us:9.1f} {them:10.1f} {us / them:6.2f}   {details}", flush=True)
            if "limit" in found[0]:
                read, limit = (statistics.median(a[key] for a in found) / 1e9 for key in ("bytes_per_second", "limit"))
                print(
                    f"         weights read at {read:.1f} GB/s, {read / limit:.0%} of the machine's {limit:.1f}",
                    flush=True,
                )
        ours.close()


if __name__ == "__main__":
    main()
