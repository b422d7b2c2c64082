"""Measure what transcribing twenty recordings costs four chats in the same engine.

    python benchmarks/mixed_load.py [--chats 4] [--files 20] [--seconds 30] [--alone 20]
                                    [--chat smollm2-135m] [--transcription whisper-base.en] [--quantize int8]

The chats stream answer after answer; first alone for `--alone` seconds, then while the recordings are transcribed, all
at once and at normal priority. Printed are the gaps between the tokens of an answer as its reader sees them, and the
bound: twice the 99th percentile alone plus the longest step of a window. That step is the longest of the encoder's
stages and of the step that fills its decoder's cross blocks, each the median in the engine's trace. Exits with an error
if the bound is exceeded, or if an answer or a transcript is missing.
Needs the clips that the tests fetch.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from antiphon import Engine, SamplingParams
from antiphon.engine.plan import FILLING
from antiphon.runtime.slots.resident import encoder_name
from trace_steps import trace_steps

QUESTIONS = (
    "Tell me a long story about a lighthouse keeper.",
    "Explain in detail how bread is baked.",
    "Describe a walk through an old town, street by street.",
    "Write a long letter to a friend about the sea.",
)


@dataclass
class Gaps:
    """Seconds between tokens as their readers received them, with the number of answers read."""

    seconds: list[float] = field(default_factory=list)
    answers: int = 0
    failures: list[str] = field(default_factory=list)

    def at(self, share: float) -> float:
        return float(np.quantile(self.seconds, share))

    def line(self) -> str:
        middle, high, worst = (self.at(share) * 1e3 for share in (0.5, 0.99, 1.0))
        count = f"{len(self.seconds)} gaps of {self.answers} answers"
        return f"median {middle:.1f} ms, p99 {high:.1f} ms, longest {worst:.1f} ms ({count})"


def chat(engine: Engine, model: str, number: int, done: threading.Event, gaps: Gaps, lock: threading.Lock) -> None:
    """Read answers until `done` is set; the last answer is read to its end."""
    turn = 0
    while not done.is_set():
        text = f"{QUESTIONS[number % len(QUESTIONS)]} Part {turn + 1}."
        params = SamplingParams(temperature=0.7, seed=100 * number + turn, max_tokens=160)
        own: list[float] = []
        last = 0.0
        try:
            for delta in engine.stream([{"role": "user", "content": text}], params, model=model):
                now = time.perf_counter()
                own += [now - last] if last and delta.token_ids else []
                last = now
        except Exception as error:
            with lock:
                gaps.failures.append(f"{type(error).__name__}: {error}")
            return
        with lock:
            gaps.seconds += own
            gaps.answers += 1
        turn += 1


class Chats:
    """Threads that read answers until the context is left."""

    def __init__(self, engine: Engine, model: str, count: int) -> None:
        self.gaps = Gaps()
        self._done = threading.Event()
        lock = threading.Lock()
        common = (self._done, self.gaps, lock)
        self._threads = [threading.Thread(target=chat, args=(engine, model, n, *common)) for n in range(count)]

    def __enter__(self) -> Chats:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


def transcription_steps(engine: Engine, chat_model: str, began: float) -> list[tuple[float, str, int]]:
    """Return seconds, model and stage of the steps since `began` from the engine's trace, except those of the chats."""
    steps = ((step["dur"] / 1e6, step["args"]) for step in trace_steps(engine, since=began * 1e6))
    return [(seconds, step["model"], step["stage"]) for seconds, step in steps if step["model"] != chat_model]


def longest_stage_and_filling(steps: list[tuple[float, str, int]], model: str) -> tuple[float, float]:
    """Return the median seconds of the encoder's longest stage, and of the step that fills cross blocks."""
    stages: dict[int, list[float]] = {}
    filling = []
    for seconds, name, stage in steps:
        if name == encoder_name(model):
            stages.setdefault(stage, []).append(seconds)
        elif stage == FILLING:
            filling.append(seconds)
    if not stages or not filling:
        raise SystemExit(f"the trace has {len(stages)} stages of an encoder and {len(filling)} filling steps")
    return max(float(np.median(stage)) for stage in stages.values()), float(np.median(filling))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--alone", type=float, default=20.0)
    parser.add_argument("--chat", default="smollm2-135m")
    parser.add_argument("--transcription", default="whisper-base.en")
    parser.add_argument("--quantize", choices=("int8", "q4", "none"), default="int8")
    arguments = parser.parse_args()
    from support.sound.speech import joined_recording, word_error_rate

    made = [joined_recording(arguments.seconds, seed) for seed in range(arguments.files)]
    quantize = None if arguments.quantize == "none" else arguments.quantize
    with Engine(arguments.chat, arguments.transcription, kv_bytes=1 << 30, quantize=quantize) as engine:
        engine.transcribe(made[0][0][: 16_000 * 10], language="en")
        with Chats(engine, arguments.chat, arguments.chats) as alone:
            time.sleep(arguments.alone)
        began = time.perf_counter()
        with Chats(engine, arguments.chat, arguments.chats) as beside:
            transcripts = engine.transcribe_all([sound for sound, _ in made], language="en")
            ended = time.perf_counter()
        steps = transcription_steps(engine, arguments.chat, began)
    total = sum(len(sound) for sound, _ in made) / 16_000
    errors = [word_error_rate(text, done.text) for (_, text), done in zip(made, transcripts, strict=True)]
    stage, filling = longest_stage_and_filling(steps, arguments.transcription)
    step = max(stage, filling)
    longest, slowest, _ = max(steps)
    bound = 2 * alone.gaps.at(0.99) + step
    print(f"{arguments.chats} chats alone: {alone.gaps.line()}")
    print(f"beside {arguments.files} recordings: {beside.gaps.line()}")
    print(
        f"{len(transcripts)} transcripts of {total:.0f} s in {ended - began:.1f} s (real-time factor "
        f"{(ended - began) / total:.3f}), WER {np.mean(errors):.2%}"
    )
    print(f"{len(steps)} steps of transcription: {stage * 1e3:.1f} ms for the longest stage of one window, ", end="")
    print(f"{filling * 1e3:.1f} ms for filling its cross blocks; longest {longest * 1e3:.1f} ms ({slowest})")
    kept = beside.gaps.at(0.99) <= bound
    print(f"bound 2 x {alone.gaps.at(0.99) * 1e3:.1f} + {step * 1e3:.1f} = {bound * 1e3:.1f} ms: ", end="")
    print("kept" if kept else "NOT kept", f"(p99 {beside.gaps.at(0.99) * 1e3:.1f} ms)")
    failures = alone.gaps.failures + beside.gaps.failures
    failures += [f"recording {n} has no text" for n, done in enumerate(transcripts) if not done.text.strip()]
    for failure in failures:
        print(failure, file=sys.stderr)
    if failures or not kept:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
