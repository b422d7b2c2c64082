"""Repeat the tests marked `soak` for some minutes, in another order and with another seed each round.

    soak_rounds.py [--minutes N] [--seed S] [PYTEST ARGUMENTS]

A test that has begun when the time is over is finished. The first failure ends the soak; the seed of its round repeats
it. The end lists the number of times that each test has run, and the tests that were never reached.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKERS = 2


def run_round(seed: int, until: float, times: list[Path], arguments: list[str]) -> int:
    """Run the soak tests that can start before `until`, each once; return pytest's exit status.

    Tests marked `alone`, which measure time, run first, in a process of their own.
    """
    command = [sys.executable, "-m", "pytest", "--soak", "--shuffle", str(seed), "--until", str(until)]
    command += ["--seed", str(seed), f"--hypothesis-seed={seed}", "--verbose", "--maxfail=1", *arguments]
    workers = ["-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"]
    for file, options in zip(times, (["-m", "soak and alone"], ["-m", "soak and not alone", *workers]), strict=True):
        status = subprocess.run([*command, *options, "--times", str(file)], cwd=ROOT).returncode
        if status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return status
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20, help="Minutes in which new rounds begin.")
    parser.add_argument("--seed", type=int, default=1, help="The seed of the first round.")
    options, arguments = parser.parse_known_args()
    until = time.time() + 60 * options.minutes
    runs: Counter[str] = Counter()
    seed, status = options.seed, 0
    with tempfile.TemporaryDirectory() as folder:
        times = [Path(folder) / "alone.json", Path(folder) / "others.json"]
        while status == 0 and time.time() < until:
            print(f"=== soak: seed {seed}, {(until - time.time()) / 60:.1f} minutes left", flush=True)
            status = run_round(seed, until, times, arguments)
            for file in filter(Path.exists, times):
                for test in json.loads(file.read_text(encoding="utf-8")):
                    runs[test["test"]] += "call" in test
                file.unlink()
            seed += 1
    for name in sorted(runs):
        print(f"{runs[name]:5}  {name}" if runs[name] else f"never  {name}")
    print(f"=== soak: {sum(runs.values())} runs of {sum(map(bool, runs.values()))} tests of {len(runs)}", flush=True)
    if status:
        print(f"=== soak: failed; repeat with --seed {seed - 1}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
