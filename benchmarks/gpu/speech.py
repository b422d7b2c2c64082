"""Measure transcription and embedding through the engine, with random weights of the full shape.

    python benchmarks/gpu/speech.py [--device cuda] [--sections whisper,embedding] [--output FILE]

- `whisper`: recordings transcribed together, in seconds of sound per second of work. Random weights seldom end a
transcript, so every window is decoded to its length limit (224 tokens): longer than for speech.
- `embedding`: texts of equal length embedded together, in texts and tokens per second.

A run before the measured ones compiles kernels and captures graphs. `--device cpu` takes minutes at the full size;
`--whisper whisper-tiny --recordings 1 --seconds 4 --texts 8` is small.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
import torch

from antiphon import Engine
from antiphon.audio.samples import SPEECH_RATE
from antiphon.engine.telemetry import StepRecord
from antiphon.ops import Device
from support.models.random_encoders import random_bert, random_whisper

SECTIONS = ("whisper", "embedding")


def timed(engine: Engine, work: Callable[[], Any], runs: int) -> tuple[float, list[StepRecord], Any]:
    """Return the median seconds of `runs` runs after a warm-up, and the steps and result of the last run."""
    seconds: list[float] = []
    steps, result = [], work()
    for _ in range(runs):
        last = engine.step_records()[-1].index if engine.step_records() else -1
        begun = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begun)
        steps = [step for step in engine.step_records() if step.index > last]
    return statistics.median(seconds), steps, result


def device_ms(steps: list[StepRecord], is_own: Callable[[StepRecord], bool]) -> float:
    return 1e3 * sum(step.parts.get("run", 0.0) for step in steps if is_own(step))


def run_whisper(options: argparse.Namespace, device: Device) -> dict[str, Any]:
    loaded = random_whisper(options.whisper, device=device)
    generator = np.random.default_rng(0)
    length = int(options.seconds * SPEECH_RATE)
    sounds = [(0.05 * generator.standard_normal(length)).astype(np.float32) for _ in range(options.recordings)]
    with Engine(loaded, device=str(device.torch), prefix_caching=False) as engine:

        def transcribe() -> int:
            found = engine.transcribe_all(
                sounds, language="en", voice_activity=False, timestamps=False, temperatures=(0.0,)
            )
            return sum(transcript.stats.num_tokens for transcript in found)

        seconds, steps, tokens = timed(engine, transcribe, options.runs)
    sound = options.seconds * options.recordings
    return {
        "shape": options.whisper, "compute_type": str(loaded.device.compute_type), "recordings": options.recordings,
        "sound_seconds": sound, "seconds": seconds, "times_real_time": sound / seconds, "tokens": tokens,
        "steps": len(steps), "encoder_ms": device_ms(steps, lambda step: step.model.endswith("encoder")),
        "decoder_ms": device_ms(steps, lambda step: not step.model.endswith("encoder")),
    }  # fmt: skip


def run_embedding(options: argparse.Namespace, device: Device) -> dict[str, Any]:
    loaded = random_bert(options.bert, device=device)
    generator = np.random.default_rng(0)
    lines = generator.integers(1000, 30000, (options.texts, options.text_tokens))
    texts = [" ".join(map(str, line)) for line in lines]
    with Engine(loaded, device=str(device.torch), kv_bytes=1 << 24) as engine:
        seconds, steps, _ = timed(engine, lambda: engine.embed(texts), options.runs)
    return {
        "shape": options.bert, "compute_type": str(loaded.device.compute_type), "texts": options.texts,
        "tokens": options.text_tokens, "seconds": seconds, "texts_per_second": options.texts / seconds,
        "tokens_per_second": options.texts * options.text_tokens / seconds, "steps": len(steps),
        "device_ms": device_ms(steps, lambda _: True),
    }  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--whisper", default="whisper-base", help="shape of the transcription model")
    parser.add_argument("--recordings", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each recording")
    parser.add_argument("--bert", default="bge-small", help="shape of the embedding model")
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--text-tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.sections = options.sections.split(",")
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    return options


def main() -> None:
    options = parse()
    device = Device.parse(options.device)
    runners = {"whisper": run_whisper, "embedding": run_embedding}
    results = {section: runners[section](options, device) for section in options.sections}
    for section, found in results.items():
        print(section)
        for name, value in found.items():
            print(f"  {name:20} {f'{value:,.3f}' if isinstance(value, float) else value}")
    if options.output is not None:
        options.output.write_text(json.dumps({"device": device.limits.hardware, **results}, indent=1))


if __name__ == "__main__":
    main()
