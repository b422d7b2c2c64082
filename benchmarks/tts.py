"""Compare speech synthesis with onnxruntime on the same files and number of threads, in turns.

    python benchmarks/tts.py [--threads 2] [--rounds 3] [--voices 8] [--model kokoro-82m]

- Alone: processor and wall seconds per second of sound; Antiphon through its engine, Kokoro's graph in an onnxruntime
session with all threads, Hibari's own package with its defaults. Both get the same phonemes and are divided by the
peer's seconds of sound, since Antiphon trims silence from its clauses.
- Many voices at once: wall time for all of them; Antiphon in one engine, onnxruntime in as many single-threaded
sessions as there are threads.
- A long text: time to the first sound as a share of the whole time, and the worst playback deficit.
- Paced voices at once, and the worst playback deficit among them. `--load 0.85` slows the listeners of all voices down
until a single voice would need 0.85 / voices of the time: for a machine that cannot speak that many in real time.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from antiphon.audio.speech.clauses import ClauseSplitter
from antiphon.audio.speech.lexicon import Accent
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.loading.weight_forms import WeightOptions
from antiphon.runtime.speech.pronunciation import Pronunciation
from antiphon.weights.catalog.resolve import resolve

TEXT = (
    "The quick brown fox jumps over the lazy dog near the bank of the river. "
    "On the third of March, about twelve hundred people paid nine dollars each to hear the concert. "
    "Isn't that a lovely way to spend an evening with a few good friends?"
)


class OnnxVoice:
    """The same model outside Antiphon (onnxruntime, or Hibari's package); `speak` returns the seconds of sound."""

    def __init__(self, name: str, threads: int, pronunciation: Pronunciation) -> None:
        import onnxruntime

        self._phonemizer = pronunciation.phonemizer(Accent.AMERICAN)
        resolved = resolve(name)
        self._is_kokoro = name.startswith("kokoro")
        if self._is_kokoro:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self._session = onnxruntime.InferenceSession(str(resolved.path), options, ["CPUExecutionProvider"])
            self._styles = np.fromfile(resolved.files["voices/af_heart.bin"], "<f4").reshape(-1, 256)
            self._symbols = load_symbols(resolved.path)
        else:
            from hibari import Hibari

            self._package = Hibari(threads=threads)

    def speak(self, text: str) -> float:
        splitter = ClauseSplitter()
        clauses = [*splitter.push(text), *splitter.finish()]
        return sum(self._say(self._phonemizer(clause.text).phonemes) for clause in clauses)

    def _say(self, phonemes: str) -> float:
        if not self._is_kokoro:
            return len(self._package.from_phonemes(phonemes, seed=0)) / 24_000
        ids = [0, *(self._symbols[symbol] for symbol in phonemes if symbol in self._symbols), 0]
        style = self._styles[min(len(ids) - 2, len(self._styles) - 1)][None]
        feeds = {"input_ids": np.array([ids]), "style": style, "speed": np.ones(1, np.float32)}
        return float(self._session.run(None, feeds)[0].shape[-1]) / 24_000


def load_symbols(path: Path) -> dict[str, int]:
    from antiphon.weights.json_object import read_json_object

    symbols: dict[str, int] = read_json_object(path.parent / "config.json")["vocab"]
    return symbols


def timed(function: Callable[[], float]) -> tuple[float, float, float]:
    """Return wall seconds, processor seconds and seconds of sound."""
    clock, processor = time.perf_counter(), time.process_time()
    seconds = function()
    return time.perf_counter() - clock, time.process_time() - processor, seconds


def spoken_seconds(engine: Engine, text: str) -> float:
    return len(engine.speak(text).wait()) / 24_000


def all_at_once(voices: int, speak: Callable[[int], float]) -> float:
    with ThreadPoolExecutor(voices) as pool:
        return sum(pool.map(speak, range(voices)))


def alone(engine: Engine, peer: OnnxVoice, rounds: int) -> None:
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(timed(lambda: spoken_seconds(engine, TEXT)))
        theirs.append(timed(lambda: peer.speak(TEXT)))
    report("alone", ours, theirs)


def together(engine: Engine, name: str, arguments: argparse.Namespace, pronunciation: Pronunciation) -> None:
    peers = [OnnxVoice(name, 1, pronunciation) for _ in range(arguments.threads)]
    locks = [threading.Lock() for _ in peers]

    def theirs_speak(index: int) -> float:
        worker = index % len(peers)
        with locks[worker]:
            return peers[worker].speak(TEXT)

    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(timed(lambda: all_at_once(arguments.voices, lambda _: spoken_seconds(engine, TEXT))))
        theirs.append(timed(lambda: all_at_once(arguments.voices, theirs_speak)))
    report(f"{arguments.voices} voices", ours, theirs)


def long_text(engine: Engine) -> None:
    synthesis = engine.speak(TEXT * 5)
    synthesis.wait()
    stats = synthesis.stats
    share = stats.time_to_first_audio / stats.processing_seconds
    print(
        f"a text of {stats.audio_seconds:.0f} s: first sound after {stats.time_to_first_audio:.2f} s, "
        f"{share:.1%} of the whole; worst deficit {stats.worst_deficit * 1e3:.0f} ms"
    )


def paced(engine: Engine, voices: int, model: Synthesizer, load: float | None) -> None:
    """Speak paced in at most `voices` voices, as many as the machine manages in real time.

    With `load`, all voices speak, to slower listeners.
    """
    clock, _, sound = timed(lambda: spoken_seconds(engine, TEXT))
    count = max(1, min(voices, int(0.9 * sound / clock)))
    slower = 1.0
    if load is not None:
        count, slower = voices, voices * clock / sound / load
        model.sample_rate = round(model.sample_rate / slower)
    begun = time.perf_counter()
    syntheses = [engine.speak(f"{TEXT} {TEXT}", paced=True) for _ in range(count)]
    all_at_once(count, lambda index: float(len(syntheses[index].wait())))
    lasted = time.perf_counter() - begun
    heard = statistics.mean(synthesis.stats.audio_seconds for synthesis in syntheses)
    deficit = max(synthesis.stats.worst_deficit for synthesis in syntheses)
    print(
        f"{count} paced voices at once to listeners {slower:.2f} times as slow, done after {lasted / heard:.2f} of the "
        f"time they take to hear: worst deficit {deficit * 1e3:.0f} ms"
    )


def report(what: str, ours: list[Any], theirs: list[Any]) -> None:
    sound = theirs[0][2]
    for unit, place in (("clock", 0), ("processor", 1)):
        mine, other = (statistics.median(run[place] for run in runs) / sound for runs in (ours, theirs))
        print(
            f"{what}, {unit}: ours {mine:.3f}, onnxruntime {other:.3f} of real time: {other / mine:.2f} times as fast"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["kokoro-82m", "hibari-6m"], default="kokoro-82m")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--voices", type=int, default=8)
    parser.add_argument("--precision", choices=["fast", "fp32"], default="fast")
    parser.add_argument("--parts", default="alone,together,long,paced", help="which of the measurements to make")
    parser.add_argument("--load", type=float, help="slow the listeners of all paced voices down to this much work")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    loaded: LoadedModel = load_model(arguments.model, options=WeightOptions(precision=arguments.precision))
    parts = set(arguments.parts.split(","))
    with Engine(loaded, kv_bytes=1 << 20) as engine:
        engine.speak("Warm up.").wait()
        pronunciation = Pronunciation.from_catalog(engine.detectors)
        if "alone" in parts:
            peer = OnnxVoice(arguments.model, arguments.threads, pronunciation)
            peer.speak("Warm up.")
            alone(engine, peer, arguments.rounds)
        if "together" in parts:
            together(engine, arguments.model, arguments, pronunciation)
        if "long" in parts:
            long_text(engine)
        if "paced" in parts:
            assert isinstance(loaded.model, Synthesizer)
            paced(engine, arguments.voices, loaded.model, arguments.load)


if __name__ == "__main__":
    main()
