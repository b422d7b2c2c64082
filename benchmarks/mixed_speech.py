"""Run chats, syntheses and a bulk transcription in one engine, and measure a critical short synthesis among them.

    python benchmarks/mixed_speech.py [--voice-model hibari-6m] [--chats 4] [--syntheses 4] [--recordings 20]

Everything is first computed alone, then all at once with `batch_invariant` and the policy `priority`; the recogniser is
in int8, as in `antiphon transcribe`. Printed are the critical synthesis's time to first audio alone and among the
others, and whether every output equals its output alone. The same voice model speaks the recordings beforehand.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import soxr

from antiphon import Engine, Priority, SamplingParams
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.weight_forms import WeightOptions

CHAT, HEARER = "smollm2-135m", "whisper-base.en"
SHORT = "Your table is ready."
LONG = (
    "The old harbour was quiet in the morning, and only a few boats came in. "
    "By noon the market had filled with people who wanted fish, bread and news of the storm. "
)
PROMPTS = ["Tell me about rivers.", "What is a good breakfast?", "Why is the sky blue?", "Name three old cities."]
SPOKEN = ["The train leaves at nine.", "She bought two red apples.", "It rained all night.", "Call me after lunch."]


def recording(engine: Engine, index: int, voice: str) -> np.ndarray:
    samples = engine.speak(f"{SPOKEN[index % len(SPOKEN)]} Number {index + 1}.", model=voice).wait()
    sound: np.ndarray = soxr.resample(np.asarray(samples), 24_000, 16_000).astype(np.float32)
    return sound


def chat(engine: Engine, index: int) -> list[int]:
    prompt = f"{PROMPTS[index % len(PROMPTS)]} ({index})"
    [completion] = engine.generate([prompt], SamplingParams(max_tokens=96, ignore_eos=True, seed=index), model=CHAT)
    return list(completion.token_ids)


def first_audio(engine: Engine, voice: str) -> float:
    synthesis = engine.speak(SHORT, model=voice, priority=Priority.CRITICAL)
    synthesis.wait()
    return float(synthesis.stats.time_to_first_audio)


def in_threads(work: list[Callable[[], Any]]) -> tuple[list[threading.Thread], list[Any]]:
    """Start each task in a thread; return the threads and the results, which include exceptions of failed tasks."""
    results: list[Any] = [None] * len(work)

    def run(index: int) -> None:
        try:
            results[index] = work[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(work))]
    for thread in threads:
        thread.start()
    return threads, results


def same(alone: Any, crowded: Any) -> bool:
    if isinstance(alone, np.ndarray):
        return isinstance(crowded, np.ndarray) and np.array_equal(alone, crowded)
    return bool(alone == crowded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice-model", default="hibari-6m")
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--syntheses", type=int, default=4)
    parser.add_argument("--recordings", type=int, default=20)
    parser.add_argument("--arrivals", type=int, default=5, help="critical syntheses, one after the other")
    arguments = parser.parse_args()
    voice = arguments.voice_model
    options: dict[str, Any] = dict(kv_bytes=512 << 20, policy="priority", batch_invariant=True)
    hearer = load_model(HEARER, options=WeightOptions(quantize="int8"))
    with Engine(CHAT, voice, hearer, **options) as engine:
        sounds = [recording(engine, index, voice) for index in range(arguments.recordings)]
        work: list[Callable[[], Any]] = []
        work += [lambda index=index: chat(engine, index) for index in range(arguments.chats)]
        work += [
            lambda index=index: np.asarray(engine.speak(LONG * 2, model=voice, seed=index).wait())
            for index in range(arguments.syntheses)
        ]
        work += [lambda sound=sound: engine.transcribe(sound, model=HEARER).text for sound in sounds]
        expected = [task() for task in work]
        first_audio(engine, voice)
        alone = [first_audio(engine, voice) for _ in range(arguments.arrivals)]
        threads, results = in_threads(work)
        time.sleep(0.5)
        crowded = []
        while any(thread.is_alive() for thread in threads) and len(crowded) < arguments.arrivals:
            crowded.append(first_audio(engine, voice))
        for thread in threads:
            thread.join()
    dropped = [result for result in results if result is None or isinstance(result, Exception)]
    equal = sum(same(before, after) for before, after in zip(expected, results, strict=True))
    quiet, busy = statistics.median(alone), statistics.median(crowded)
    print(
        f"critical synthesis: first audio after {quiet * 1e3:.0f} ms alone, {busy * 1e3:.0f} ms in the crowd "
        f"(median of {len(crowded)}, worst {max(crowded) * 1e3:.0f} ms): {busy / quiet:.2f} times"
    )
    print(f"{len(work)} others: {len(dropped)} dropped, {equal} exactly what they are alone")
    for result in dropped:
        print(f"  {result!r}")


if __name__ == "__main__":
    main()
