"""Measure the cost of planning and committing a step, with many requests running and nothing computed.

python benchmarks/scheduler_plan.py [--running 256] [--waiting 0] [--groups 1]
"""

from __future__ import annotations

import argparse
import statistics
import time

from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.plan import StepResult
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import SchedulerConfig

BLOCK_TOKENS = 16
PROMPT_TOKENS = 64
LIMIT_MICROSECONDS = 1000.0


def make_scheduler(running: int, waiting: int, groups: int, policy: str) -> Scheduler:
    """Build a scheduler whose running requests have computed their prompts."""
    arena = SlabArena(4 << 30, 2 << 20)
    specs = [GroupSpec(f"g{index}", 16384, window=64 if index else None) for index in range(groups)]
    config = SchedulerConfig(max_running=running, max_waiting=max(1, waiting) + running, max_step_tokens=8192)
    kv = KVManager(arena, specs, BLOCK_TOKENS, max_step_tokens=8192)
    scheduler = Scheduler("model", kv, make_policy(policy), config, 1 << 20)
    for index in range(running + waiting):
        prompt = [index + position for position in range(PROMPT_TOKENS + index % BLOCK_TOKENS)]
        scheduler.add(Request(f"r{index}", "model", prompt, SamplingParams(max_tokens=100_000)), 1.0)
    while any(request.num_behind > 1 for request in scheduler.running) or len(scheduler.running) < running:
        plan = scheduler.plan(1.0)
        scheduler.commit(plan, StepResult([1] * sum(plan.samples)), 1.0)
    return scheduler


def measure(scheduler: Scheduler, steps: int) -> tuple[list[float], list[float]]:
    """Return the microseconds of every plan and of every commit."""
    planning, committing = [], []
    for step in range(steps):
        begun = time.perf_counter()
        plan = scheduler.plan(2.0)
        planned = time.perf_counter()
        result = StepResult([step % 997 + index for index in range(len(plan.requests))])
        ready = time.perf_counter()
        scheduler.commit(plan, result, 2.0)
        committed = time.perf_counter()
        planning.append((planned - begun) * 1e6)
        committing.append((committed - ready) * 1e6)
    return planning, committing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--policy", default="fcfs")
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    scheduler = make_scheduler(arguments.running, arguments.waiting, arguments.groups, arguments.policy)
    measure(scheduler, 50)
    planning, committing = measure(scheduler, arguments.steps)
    scheduler.check_integrity()
    count = arguments.running
    for name, times in (("plan", planning), ("commit", committing)):
        median, tail = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(f"{name:7} {median:7.0f} µs median, {tail:7.0f} µs p99, {median / count:5.2f} µs a sequence")
    verdict = "within" if statistics.median(planning) < LIMIT_MICROSECONDS else "OVER"
    print(f"planning {count} running requests is {verdict} {LIMIT_MICROSECONDS:.0f} µs")


if __name__ == "__main__":
    main()
