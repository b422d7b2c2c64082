"""Measure the time from the start of `antiphon run` to its first output, with a local model and with a server.

    python benchmarks/cli_start.py smollm2-135m --rounds 7

Rounds alternate between both; the first round is not counted. Both must give the same answer at temperature 0, or the
script ends with an error. It starts and stops the server itself.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

COMMAND = [sys.executable, "-c", "from antiphon.cli.app import main; main()"]


@contextmanager
def server(model: str) -> Iterator[str]:
    """Yield the URL of a server that has loaded the model and is ready."""
    process = subprocess.Popen(
        [*COMMAND, "serve", model, "--port", "0", "--kv-memory", "256", "--offline"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        url = next(found[0] for line in lines if (found := re.search(r"http://[\d.]+:\d+", line)))
        while next(lines, None) != f"API: {url}/v1\n":  # last line of the start-up table
            assert process.poll() is None, "the server ended"
        with urllib.request.urlopen(f"{url}/readyz") as answer:
            assert answer.status == 200
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def timed(model: str, prompt: str, tokens: int, options: list[str]) -> tuple[float, float, float, str]:
    """Run a prompt; return seconds to the first byte and to the end, processor seconds, and the answer."""
    asked = ["run", model, prompt, "--temperature", "0", "--max-tokens", str(tokens)]
    before = os.times()
    started = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *asked, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    first = process.stdout.read(1)
    to_first = time.perf_counter() - started
    rest = process.stdout.read()
    assert process.wait() == 0, f"`antiphon run` ended with {process.returncode}"
    to_end = time.perf_counter() - started
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return to_first, to_end, processor, (first + rest).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--prompt", default="What is the capital of France?")
    parser.add_argument("--tokens", type=int, default=16)
    arguments = parser.parse_args()
    with server(arguments.model) as url:
        kinds = {"embedded": ["--local", "--offline"], "remote": ["--base-url", url]}
        results: dict[str, list[tuple[float, float, float, str]]] = {name: [] for name in kinds}
        for round_ in range(arguments.rounds + 1):
            for name, options in kinds.items():
                result = timed(arguments.model, arguments.prompt, arguments.tokens, options)
                if round_:
                    results[name].append(result)
                    print(f"round {round_}, {name}: first output after {result[0]:.2f} s", file=sys.stderr)
    answers = {answer for rows in results.values() for *_, answer in rows}
    assert len(answers) == 1, f"the answers differ: {answers}"
    print("| | first output, s | end, s | processor time, s |")
    print("|---|---|---|---|")
    medians = {}
    for name, rows in results.items():
        medians[name] = [statistics.median(column) for column in list(zip(*rows, strict=True))[:3]]
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in medians[name]) + " |")
    ratio = medians["embedded"][0] / medians["remote"][0]
    print(f"\nmedians of {arguments.rounds} rounds; the first output comes {ratio:.1f} times sooner from a server")


if __name__ == "__main__":
    main()
