"""Measure how long decoding requests wait for their next token while a long prompt is computed.

    python benchmarks/adaptive_gap.py [--model smollm2-135m] [--prompt 6000] [--decoding 8]

First the decode-only step is measured; the target for the time per output token is 1.5 times that. Then the prompt
arrives under three settings: `adaptive` with that target, `fcfs` in chunks, and `fcfs` with whole prompts. Printed are
the 99th percentile and the maximum of the decoding requests' inter-token gaps, relative to the target. Everything runs
in one process.
"""

from __future__ import annotations

import argparse
import random
import statistics

from antiphon.engine.core import EngineCore
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.resident import make_slots

WARM_STEPS = 40
DECODE_PROMPT = 32


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Scene:
    """Fresh engine core with requests that decode, past their prompts and with a fitted cost model."""

    def __init__(self, loaded: LoadedModel, decoding: int, config: EngineConfig) -> None:
        self.loaded = loaded
        self.core = EngineCore()
        (slot,) = make_slots(loaded, Arena.allocate(config), config)
        self.core.add_model(slot)
        source = random.Random(0)
        self.requests = [self._add(f"decode-{index}", DECODE_PROMPT, source) for index in range(decoding)]
        # Prompts of several lengths run first, so that the cost model has measured prefill.
        for index in range(4):
            self._add(f"warm-{index}", 64 * (index + 1), source, max_tokens=2)
        for _ in range(WARM_STEPS):
            self.core.step()

    def _add(self, name: str, length: int, source: random.Random, max_tokens: int = 100_000) -> Request:
        prompt = [source.randrange(1000, 20_000) for _ in range(length)]
        request = Request(name, self.loaded.name, prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True))
        self.core.add(request)
        return request

    def decode_step(self, steps: int = 30) -> float:
        for _ in range(steps):
            self.core.step()
        return statistics.median(gap for r in self.requests for gap in r.marks.inter_token_gaps[-steps:])

    def gaps_during_prompt(self, length: int) -> tuple[list[float], float, int]:
        """Add a prompt of `length` tokens and step until its first token.

        Return the decoding requests' gaps in that time, the prompt's time to first token, and the number of steps.
        """
        before = [len(request.marks.tokens) for request in self.requests]
        arriving = self._add("long", length, random.Random(1), max_tokens=1)
        steps = 0
        while not arriving.is_ended:
            self.core.step()
            steps += 1
        gaps = []
        for request, count in zip(self.requests, before, strict=True):
            gaps += request.marks.inter_token_gaps[max(0, count - 1) :]
        return gaps, arriving.marks.time_to_first_token, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--prompt", type=int, default=6000)
    parser.add_argument("--decoding", type=int, default=8)
    arguments = parser.parse_args()
    loaded = load_model(arguments.model)
    base = dict(kv_bytes=2 << 30, max_step_tokens=8192)
    step = Scene(loaded, arguments.decoding, EngineConfig(**base)).decode_step()  # type: ignore[arg-type]
    target = 1.5 * step
    print(f"decode-only step {step * 1e3:.1f} ms; target {target * 1e3:.1f} ms")
    settings = {
        "adaptive": dict(policy="adaptive", tpot_target=target),
        "fcfs, chunks of 512": dict(policy="fcfs"),
        "fcfs, whole prompts": dict(policy="fcfs", chunk_tokens=None),
    }
    for name, options in settings.items():
        scene = Scene(loaded, arguments.decoding, EngineConfig(**base, **options))  # type: ignore[arg-type]
        gaps, first_token, steps = scene.gaps_during_prompt(arguments.prompt)
        p99, worst = percentile(gaps, 0.99), max(gaps)
        print(
            f"{name:22} p99 gap {p99 / target:6.2f} x target, worst {worst / target:6.2f} x, "
            f"prompt's first token after {first_token:6.1f} s and {steps} steps"
        )


if __name__ == "__main__":
    main()
