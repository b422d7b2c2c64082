"""Run the stages of `make test` and `make test-all`, and report how long each took. Needs only the standard library.

stages.py begin                       delete the times of the last run
stages.py run NAME COMMAND...         run a command as a stage; "{times}" is replaced by its file of test times
stages.py report MINUTES              the stages, the slowest tests, and the total beside its budget in minutes
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("build") / "test-times"
BEGUN, STAGES = FOLDER / "begun", FOLDER / "stages.jsonl"
#: Stages of `make test`: their tests may take FAST_SECONDS without a stated reason, tests of other stages SLOW_SECONDS.
FAST_STAGES = ("fast", "browser")
FAST_SECONDS, SLOW_SECONDS = 2.0, 15.0
NUM_SLOWEST = 10


def begin() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    BEGUN.write_text(str(time.time()))
    return 0


def run(name: str, command: list[str]) -> int:
    """Run a command as a stage, record its time, and return its exit status."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    started = time.time()
    status = subprocess.run([word.replace("{times}", str(FOLDER / f"{name}.json")) for word in command]).returncode
    seconds = time.time() - started
    with STAGES.open("a") as file:
        file.write(json.dumps({"stage": name, "started": started, "seconds": seconds, "status": status}) + "\n")
    print(f"=== {name}: {seconds:.0f} s{'' if status == 0 else f', failed with status {status}'}", flush=True)
    return status


def report(budget_minutes: float) -> int:
    """Print the stages, the slowest tests, tests over their limit without a stated reason, and the total time."""
    stages = [json.loads(line) for line in STAGES.read_text().splitlines()]
    tests = []
    for path in sorted(FOLDER.glob("*.json")):
        tests += [{"stage": path.stem, **test} for test in json.loads(path.read_text())]
    print("\nstage            seconds    test seconds  tests")
    for stage in stages:
        own = [test for test in tests if test["stage"] == stage["stage"]]
        figures = f"{sum(map(seconds, own)):14.0f} {len(own):6}" if own else ""
        print(f"{stage['stage']:14} {stage['seconds']:9.0f} {figures}")
    print(f"\nthe {NUM_SLOWEST} slowest tests")
    for test in sorted(tests, key=seconds, reverse=True)[:NUM_SLOWEST]:
        print(f"{seconds(test):9.1f}  {test['stage']:9}  {test['test']}")
    unexplained = [test for test in tests if test.get("call", 0) > limit(test["stage"]) and not test["reason"]]
    if unexplained:
        print(
            f"\nover {FAST_SECONDS:g} s in {', '.join(FAST_STAGES)} or {SLOW_SECONDS:g} s elsewhere, without a reason"
        )
        for test in sorted(unexplained, key=seconds, reverse=True):
            print(f"{test['call']:9.1f}  {test['stage']:9}  {test['test']}")
    minutes = (time.time() - float(BEGUN.read_text())) / 60
    print(f"\ntotal: {minutes:.1f} minutes of {budget_minutes:g}{'' if minutes <= budget_minutes else ': OVER BUDGET'}")
    return 0


def seconds(test: dict[str, float]) -> float:
    return sum(test.get(phase, 0.0) for phase in ("setup", "call", "teardown"))


def limit(stage: str) -> float:
    return FAST_SECONDS if stage in FAST_STAGES else SLOW_SECONDS


def main(arguments: list[str]) -> int:
    match arguments:
        case ["begin"]:
            return begin()
        case ["run", name, *command] if command:
            return run(name, command)
        case ["report", minutes]:
            return report(float(minutes))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
