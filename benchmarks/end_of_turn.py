"""Measure milliseconds per look of the end-of-turn model, beside onnxruntime, and of echo cancelling.

    python benchmarks/end_of_turn.py --rounds 20 --threads 2
    python benchmarks/end_of_turn.py --accuracy clip.wav ...

Rounds are interleaved and medians are printed; the first round is not counted. A look includes the log-mel frames of 8
s of sound, which take the same time in every case. Needs `onnxruntime`.

With `--accuracy`, each recording is a whole sentence. Looks are 200 ms after its end, where the turn is complete, and
after every gap between two of its words, where it is not; each with and without another sentence before it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from antiphon.audio.decode import decode
from antiphon.audio.echo import EchoGuard
from antiphon.audio.samples import Floats
from antiphon.models.base.companions import END_OF_TURN, VOICE_ACTIVITY
from antiphon.models.silero_vad import SileroVAD, voice_probabilities
from antiphon.models.smart_turn import SmartTurn
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.weight_forms import WeightOptions
from antiphon.weights.catalog.resolve import resolve

RATE = 16_000


def network(precision: str) -> SmartTurn:
    model = load_model(END_OF_TURN, options=WeightOptions(precision=precision)).model
    assert isinstance(model, SmartTurn)
    return model


def session(threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(resolve(END_OF_TURN).path), options, providers=["CPUExecutionProvider"])


def looks(threads: int) -> dict[str, Callable[[], object]]:
    """Return functions that each take a look at the same sound, by name."""
    sound = 0.05 * np.random.default_rng(0).standard_normal(8 * RATE).astype(np.float32)
    fast, floats, graph = network("fast"), network("fp32"), session(threads)

    def by_onnxruntime() -> object:
        return graph.run(None, {"input_features": np.ascontiguousarray(fast.features(sound).T)[None]})

    return {
        "antiphon, int8": lambda: fast.detect([sound]),
        "antiphon, floats": lambda: floats.detect([sound]),
        "onnxruntime": by_onnxruntime,
        "log-mel frames alone": lambda: fast.features(sound),
        "antiphon, int8, 4 at once (each)": lambda: fast.detect([sound] * 4),
    }


def gaps(clip: Floats, end: int) -> list[int]:
    """Return quiet positions between words, in samples, except in the last half second of speech."""
    power = np.convolve(clip**2, np.ones(480) / 480, "same")[::160]
    quiet = 0.15 * np.median(power[power > 1e-6])
    places = [i for i in range(50, len(power)) if power[i] < quiet and power[i] == power[max(0, i - 12) : i + 13].min()]
    return [160 * place for place in places if 160 * place < end - RATE // 2]


def speech_end(clip: Floats) -> int:
    detector = load_model(VOICE_ACTIVITY).model
    assert isinstance(detector, SileroVAD)
    voice = voice_probabilities(detector, [clip], [detector.initial_state()], final=True)[0]
    return int((np.nonzero(voice >= 0.5)[0][-1] + 1) * detector.chunk)


def labelled_looks(clips: Sequence[Floats]) -> Iterator[tuple[Floats, bool]]:
    """Yield sounds, each with whether its speaker has finished."""
    for index, clip in enumerate(clips):
        end = speech_end(clip)
        tone = np.tile(clip[end - 320 :][-1600:], 1 + RATE // len(clip[end - 320 :][-1600:]))[: RATE // 5]
        for before in (clip[:0], clips[index - 1], clips[index - 2]):
            yield np.concatenate([before, clip[:end], tone]), True
            for gap in gaps(clip, end):
                yield np.concatenate([before, clip[:gap], tone]), False


def accuracy(paths: Sequence[str], threads: int) -> None:
    """Print the share of correct decisions of Antiphon, and of onnxruntime on the graph with its rounding."""
    clips = [decode(Path(path), rate=RATE).values for path in paths]
    fast, graph = network("fast"), session(threads)
    rows = []
    for sound, is_complete in labelled_looks(clips):
        theirs = graph.run(None, {"input_features": np.ascontiguousarray(fast.features(sound).T)[None]})[0].item()
        rows.append((is_complete, fast.detect([sound])[0] > 0.5, theirs > 0.5))
    found = np.array(rows)
    for name, label in (("complete", True), ("not complete", False)):
        of = found[found[:, 0] == label]
        ours, theirs = (of[:, 1:] == label).mean(0)
        print(f"{name}: {len(of)} looks; right: antiphon {ours:.1%}, onnxruntime {theirs:.1%}")
    differ = found[found[:, 1] != found[:, 2]]
    print(f"decided differently: {len(differ)}; antiphon right in {(differ[:, 0] == differ[:, 1]).sum()}")


def milliseconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - started)


def echo_milliseconds(seconds: int = 10) -> float:
    """Return milliseconds per 20 ms of sound while a voice is played and its echo is recorded."""
    voice = 0.1 * np.random.default_rng(1).standard_normal(seconds * RATE).astype(np.float32)
    heard = np.concatenate([np.zeros(2400, np.float32), 0.18 * voice[:-2400]])
    guard = EchoGuard()
    guard.played(voice, 0)
    started = time.perf_counter()
    for start in range(0, len(heard), RATE // 50):
        guard.clean(heard[start : start + RATE // 50])
    return 1e3 * (time.perf_counter() - started) / (50 * seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--accuracy", nargs="+", metavar="RECORDING")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.accuracy:
        return accuracy(arguments.accuracy, arguments.threads)
    kinds = looks(arguments.threads)
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for round_number in range(arguments.rounds + 1):
        for name, look in kinds.items():
            took = milliseconds(look)
            if round_number:
                times[name].append(took / 4 if "4 at once" in name else took)
    for name, values in times.items():
        print(f"{name:34} {statistics.median(values):7.1f} ms")
    print(f"{'echo, 20 ms of sound':34} {statistics.median(echo_milliseconds() for _ in range(3)):7.2f} ms")


if __name__ == "__main__":
    main()
