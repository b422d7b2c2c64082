"""Compare transcription with faster-whisper and whisper.cpp: same weights, threads and beam size, in turns.

    python benchmarks/asr.py [--seconds 600] [--several 8] [--several-seconds 60] [--rounds 3] [--threads 2] [--beam 1]
                             [--quantize int8]

Every engine has its own process, loaded and idle while the others work. Recordings are real clips joined in random
order with at most a tenth of silence, and differ in every round, so that no engine can reuse a result. faster-whisper
(its batched pipeline, int8) reads the same CTranslate2 file as Antiphon, and whisper.cpp the same ggml file.
`--quantize` sets the type of Antiphon's weights; `none` keeps the file's. Printed are medians over the rounds of the
real-time factor, the word error rate and the peak of resident memory, and the engines' ratios.
Needs the `bench` extra, and the clips that the tests fetch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

MULTILINGUAL, ENGLISH = "whisper-base", "whisper-base.en"
CONTESTS = {
    "antiphon base": ("antiphon", MULTILINGUAL),
    "faster-whisper base": ("faster-whisper", MULTILINGUAL),
    "antiphon base.en": ("antiphon", ENGLISH),
    "whisper.cpp base.en": ("whisper.cpp", ENGLISH),
}
RIVALS = {"faster-whisper base": "antiphon base", "whisper.cpp base.en": "antiphon base.en"}


class Ours:
    def __init__(self, model: str, threads: int, beam: int, quantize: str) -> None:
        from antiphon import Engine

        self._engine = Engine(model, kv_bytes=512 << 20, quantize=None if quantize == "none" else quantize)
        self._beam = beam

    def transcribe(self, recordings: list[np.ndarray]) -> list[str]:
        done = self._engine.transcribe_all(recordings, language="en", beams=self._beam, timestamps=False)
        return [transcript.text for transcript in done]


class FasterWhisper:
    """faster-whisper's pipeline, which batches the windows of a recording; recordings run in sequence."""

    def __init__(self, model: str, threads: int, beam: int, quantize: str) -> None:
        from faster_whisper import BatchedInferencePipeline, WhisperModel

        from antiphon.weights.catalog.resolve import resolve

        folder = str(resolve(model).path.parent)
        loaded = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=threads)
        self._pipeline = BatchedInferencePipeline(loaded)
        self._beam = beam

    def transcribe(self, recordings: list[np.ndarray]) -> list[str]:
        texts = []
        for recording in recordings:
            segments, _ = self._pipeline.transcribe(recording, language="en", beam_size=self._beam, batch_size=8)
            texts.append(" ".join(segment.text for segment in segments))
        return texts


class WhisperCpp:
    """A context of whisper.cpp, which transcribes recordings in sequence."""

    def __init__(self, model: str, threads: int, beam: int, quantize: str) -> None:
        from pywhispercpp.model import Model

        from antiphon.weights.catalog.resolve import resolve

        search: dict[str, Any] = {"params_sampling_strategy": 1, "beam_search": {"beam_size": beam, "patience": -1.0}}
        self._model = Model(
            str(resolve(model).path), n_threads=threads, print_progress=False, **(search if beam > 1 else {})
        )

    def transcribe(self, recordings: list[np.ndarray]) -> list[str]:
        return [" ".join(segment.text for segment in self._model.transcribe(sound)) for sound in recordings]


ENGINES = {"antiphon": Ours, "faster-whisper": FasterWhisper, "whisper.cpp": WhisperCpp}


def work(pipe: Connection, engine: str, model: str, threads: int, beam: int, quantize: str) -> None:
    """Load an engine, then transcribe each list of recordings from the pipe until it sends None."""
    import os

    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    import torch

    torch.set_num_threads(threads)
    loaded = ENGINES[engine](model, threads, beam, quantize)
    pipe.send(None)
    while (recordings := pipe.recv()) is not None:
        began = time.perf_counter()
        texts = loaded.transcribe(recordings)
        pipe.send((time.perf_counter() - began, texts, peak_bytes()))


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclass
class Figures:
    factors: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    peak: int = 0

    def line(self) -> str:
        factor, error = statistics.median(self.factors), statistics.median(self.errors)
        spread = f"{min(self.factors):.4f}-{max(self.factors):.4f}"
        return f"real-time factor {factor:.4f} ({spread})  WER {error:6.2%}  peak {self.peak / 2**20:,.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--several", type=int, default=8)
    parser.add_argument("--several-seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--quantize", choices=("int8", "q4", "none"), default="int8")
    parser.add_argument("--only", nargs="*", choices=CONTESTS, default=list(CONTESTS))
    arguments = parser.parse_args()
    from support.sound.speech import joined_recording, silence_share, word_error_rate

    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for name in arguments.only:
        ours, theirs = context.Pipe()
        engine, model = CONTESTS[name]
        settings = (arguments.threads, arguments.beam, arguments.quantize)
        context.Process(target=work, args=(theirs, engine, model, *settings), daemon=True).start()
        ours.recv()
        pipes[name] = ours
    jobs = {"one recording": (1, arguments.seconds)}
    if arguments.several:
        jobs[f"{arguments.several} at once"] = (arguments.several, arguments.several_seconds)
    for job, (count, seconds) in jobs.items():
        figures = {name: Figures() for name in pipes}
        for turn in range(arguments.rounds + 1):  # the first round warms up and is not counted
            length = seconds if turn else min(seconds, 30.0)
            made = [joined_recording(length, seed) for seed in range(turn * count, (turn + 1) * count)]
            assert all(silence_share(sound) <= 0.1 for sound, _ in made)
            total = sum(len(sound) for sound, _ in made) / 16_000
            names = list(pipes)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                pipes[name].send([sound for sound, _ in made])
                took, texts, peak = pipes[name].recv()
                if turn:
                    error = statistics.mean(
                        word_error_rate(text, told) for (_, text), told in zip(made, texts, strict=True)
                    )
                    figures[name].factors.append(took / total)
                    figures[name].errors.append(error)
                    figures[name].peak = max(figures[name].peak, peak)
        print(f"\n{job}: {count} x {seconds:.0f} s, beam {arguments.beam}, {arguments.threads} threads")
        for name, found in figures.items():
            print(f"  {name:22} {found.line()}")
        for theirs_name, ours_name in RIVALS.items():
            if theirs_name in figures and ours_name in figures:
                pairs = zip(figures[theirs_name].factors, figures[ours_name].factors, strict=True)
                print(f"  {ours_name} is {statistics.median(a / b for a, b in pairs):.2f} x as fast as {theirs_name}")
    for pipe in pipes.values():
        pipe.send(None)


if __name__ == "__main__":
    main()
