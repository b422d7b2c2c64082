"""Measure how long a model takes to load with its file in the page cache, by phase.

    python benchmarks/load.py smollm2-135m qwen2.5-coder-0.5b [--rounds 5]

Prints medians in seconds of resolving, opening, tokenizer and weights. Imports are done before and do not count.
"""

from __future__ import annotations

import argparse
import statistics
import time

from antiphon.runtime.loading.loading import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for model in arguments.models:
        load_model(model)
        totals, phases = [], []
        for _ in range(arguments.rounds):
            begun = time.perf_counter()
            loaded = load_model(model)
            totals.append(time.perf_counter() - begun)
            phases.append(loaded.report.seconds)
        medians = {name: statistics.median(seconds[name] for seconds in phases) for name in phases[0]}
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in medians.items())
        print(f"{model:24} {statistics.median(totals):.2f} s ({parts})")


if __name__ == "__main__":
    main()
