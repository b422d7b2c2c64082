"""Score Kokoro's speech: words that Whisper recognises, sound quality, and the distance from onnxruntime's sound.

    python benchmarks/round_trip.py [--sentences 30] [--arms fast,fp32,onnxruntime]

Antiphon in both precisions and onnxruntime speak thirty sentences from the same file and the same phonemes;
whisper-base.en transcribes them, and the words are compared after Whisper's own normalisation. If the package
`speechmos` is installed (its dependencies are not needed), DNSMOS P.835 scores the sound. With --captions, the words'
times are compared with Whisper's alignment instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from antiphon.audio.speech.clauses import ClauseSplitter
from antiphon.audio.speech.lexicon import Accent
from antiphon.evaluation.metrics.opinion import dnsmos
from antiphon.evaluation.round_trip import DEFAULT_JUDGE, heard, resampled, sample_sentences
from antiphon.models.base.speech_state import SpeechState, Utterance
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.weight_forms import WeightOptions
from antiphon.runtime.speech.pronunciation import Pronunciation
from antiphon.weights.catalog.resolve import resolve

MODEL, VOICE, HEARER = "kokoro-82m", "af_heart", DEFAULT_JUDGE

Speak = Callable[[list[int]], np.ndarray]


def our_voice(model: Synthesizer, styles: np.ndarray) -> Speak:
    def speak(ids: list[int]) -> np.ndarray:
        states = [SpeechState((Utterance(ids, torch.from_numpy(styles[len(ids) - 2].copy())),))]
        with torch.inference_mode():
            for stage in range(len(model.stages)):
                states = model.advance(stage, states)
            return model.speech(states[0])[0].samples.numpy()

    return speak


def their_voice(path: Path, styles: np.ndarray) -> Speak:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def speak(ids: list[int]) -> np.ndarray:
        feeds = {"input_ids": np.array([ids]), "style": styles[len(ids) - 2][None], "speed": np.ones(1, np.float32)}
        sound: np.ndarray = session.run(None, feeds)[0].reshape(-1)
        return sound

    return speak


def log_spectrum(sound: np.ndarray) -> torch.Tensor:
    spectrum = torch.stft(torch.from_numpy(sound), 512, 128, window=torch.hann_window(512), return_complex=True).abs()
    return (spectrum + 1e-3 * spectrum.max()).log()


def spectral_distance(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """Return the mean difference of log magnitudes in decibels, or None if the durations differ."""
    if len(ours) != len(theirs):
        return None
    return float((log_spectrum(ours) - log_spectrum(theirs)).abs().mean()) * 20 / np.log(10)


def captions(hearer: Engine, sentences: list[str]) -> None:
    distances: list[float] = []
    with Engine(load_model(MODEL), kv_bytes=1 << 20) as engine:
        for sentence in sentences:
            chunks = list(engine.speak(sentence))
            ours = [word for chunk in chunks for word in chunk.words]
            sound = resampled(np.concatenate([chunk.samples for chunk in chunks]), chunks[0].rate)
            theirs = hearer.transcribe(sound, model=HEARER, words=True).words
            if [plain(word.text) for word in ours] == [plain(word.text) for word in theirs]:
                distances += [abs(a.start - b.start) for a, b in zip(ours, theirs, strict=True)]
    ninth = statistics.quantiles(distances, n=10)[-1]
    print(
        f"captions: {len(distances)} words, median {statistics.median(distances) * 1e3:.0f} ms from the alignment, "
        f"nine in ten within {ninth * 1e3:.0f} ms"
    )


def plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=30)
    parser.add_argument("--arms", default="fast,fp32,onnxruntime")
    parser.add_argument("--captions", action="store_true", help="measure the captions' times instead")
    arguments = parser.parse_args()
    sentences = sample_sentences()[: arguments.sentences]
    with Engine(HEARER, kv_bytes=128 << 20) as hearer:
        if arguments.captions:
            captions(hearer, sentences)
        else:
            round_trip(hearer, sentences, arguments.arms.split(","))


def round_trip(hearer: Engine, sentences: list[str], arms: list[str]) -> None:
    resolved = resolve(MODEL)
    styles = np.fromfile(resolved.files[f"voices/{VOICE}.bin"], "<f4").reshape(-1, 256)
    symbols: dict[str, int] = json.loads((resolved.path.parent / "config.json").read_text())["vocab"]
    voices: dict[str, Speak] = {}
    for arm in arms:
        if arm == "onnxruntime":
            voices[arm] = their_voice(resolved.path, styles)
        else:
            model: Any = load_model(MODEL, options=WeightOptions(precision=arm)).model
            voices[arm] = our_voice(model, styles)
    phonemizer = Pronunciation.from_catalog(hearer.detectors).phonemizer(Accent.AMERICAN)
    has_opinions = find_spec("speechmos") is not None
    errors: dict[str, int] = dict.fromkeys(voices, 0)
    scores: dict[str, list[dict[str, float]]] = {arm: [] for arm in voices}
    distances: dict[str, list[float]] = {arm: [] for arm in voices}
    totals = dict.fromkeys(voices, 0)
    for sentence in sentences:
        splitter = ClauseSplitter()
        clauses = [*splitter.push(sentence), *splitter.finish()]
        spoken = [[symbols[s] for s in phonemizer(clause.text).phonemes if s in symbols] for clause in clauses]
        sounds = {arm: np.concatenate([speak([0, *ids, 0]) for ids in spoken]) for arm, speak in voices.items()}
        for arm, sound in sounds.items():
            heard_sound = resampled(sound, 24_000)
            words = heard(hearer, heard_sound, sentence, model=HEARER).words
            errors[arm] += words.errors
            totals[arm] += words.length
            if has_opinions:
                scores[arm].append(asdict(dnsmos(heard_sound)))
            if "onnxruntime" in sounds:
                distance = spectral_distance(sound, sounds["onnxruntime"])
                distances[arm] += [] if distance is None else [distance]
    print(f"{len(sentences)} sentences, {max(totals.values())} words")
    for arm in voices:
        line = f"{arm}: {errors[arm]} words wrong, {errors[arm] / totals[arm]:.2%}"
        for name in scores[arm][0] if scores[arm] else ():
            line += f"; {name} {statistics.mean(entry[name] for entry in scores[arm]):.3f}"
        if distances[arm] and arm != "onnxruntime":
            line += f"; {statistics.mean(distances[arm]):.2f} dB from onnxruntime's spectrum"
            line += f" ({len(distances[arm])} of {len(sentences)} with equal durations)"
        print(line)


if __name__ == "__main__":
    main()
