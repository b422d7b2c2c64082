"""Hibari and the letter-to-sound network on their real weights, held against onnxruntime and Hibari's own package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.models.base.speech_state import SpeechState, Utterance
from antiphon.models.hibari import NUM_BINS, Hibari
from antiphon.models.letter_to_sound import LetterToSound
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from antiphon.weights.formats.open import open_checkpoint
from support.models.onnx_graphs import OnnxReference

pytestmark = pytest.mark.weights

SENTENCES = [
    ("həlˈO ðˈɛɹ, hˌW ɑɹ ju tədˈA?", 1.0),
    ("ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, ænd ðˈɛn ɪt ɹˈʌnz əwˈA.", 0.8),
    ("nˈO!", 0.5),
]


@pytest.fixture(scope="module")
def model(model_path: Callable[[str], Path]) -> Hibari:
    return Hibari.from_checkpoint(open_checkpoint(model_path("hibari-6m")))


def states(model: Hibari, utterances: list[Utterance]) -> list[list[SpeechState]]:
    """The states after every stage."""
    current = [SpeechState((utterance,)) for utterance in utterances]
    out = []
    with torch.inference_mode():
        for stage in range(len(model.stages)):
            current = model.advance(stage, current)
            out.append(current)
    return out


def utterance_of(model: Hibari, phonemes: str, speed: float, seed: int = 7) -> Utterance:
    return Utterance([0, *(model.symbols[symbol] for symbol in phonemes), 0], torch.empty(0), speed, seed)


def test_agrees_with_its_graph_in_floats(model: Hibari, model_path: Callable[[str], Path]) -> None:
    dsp = pytest.importorskip("hibari.dsp")
    reference = OnnxReference(model_path("hibari-6m"), unquantised=True)
    for phonemes, speed in SENTENCES:
        utterance = utterance_of(model, phonemes, speed)
        expected = reference(ids=np.array([utterance.ids]), speed=np.array([speed], np.float32))
        stages = states(model, [utterance])
        decoded = stages[2][0].tensors
        assert relative(decoded["pitch"].view(-1), expected["f0"][0]) < 1e-5
        for name, part in zip(("lh", "theta", "ln", "lr", "phi"), decoded["spectra"][0].T.split(NUM_BINS), strict=True):
            assert relative(part, expected[name][0]) < 1e-4
        [speech] = model.speech(stages[3][0])
        parts = [expected[name][0] for name in ("lh", "theta", "ln", "lr", "phi", "f0")]
        assert relative(speech.samples, dsp.synth(*parts, np.random.default_rng(7))) < 1e-3
        assert sum(speech.id_samples) == len(speech.samples)


def test_is_near_its_graph_in_8_bits(model: Hibari, model_path: Callable[[str], Path]) -> None:
    """The package also rounds activations to 8 bits; ours stay floats, and differ by no more than that rounding."""
    reference = OnnxReference(model_path("hibari-6m"))
    utterance = utterance_of(model, *SENTENCES[0])
    expected = reference(ids=np.array([utterance.ids]), speed=np.ones(1, np.float32))
    decoded = states(model, [utterance])[2][0].tensors
    assert decoded["pitch"].shape[1] == expected["f0"].shape[1]
    assert relative(decoded["pitch"].view(-1), expected["f0"][0]) < 0.02
    assert relative(decoded["spectra"][0].T[:NUM_BINS], expected["lh"][0]) < 0.03


def test_computed_in_8_bits_it_is_as_near_as_its_graph(model: Hibari, model_path: Callable[[str], Path]) -> None:
    """Where it may be fast, activations are rounded too, each frame by itself."""
    fast = Hibari.from_checkpoint(open_checkpoint(model_path("hibari-6m")))
    prepare(fast, LoadReport(), WeightOptions(precision="fast"))
    for sentence in SENTENCES:
        utterance = utterance_of(model, *sentence)
        expected, got = (states(own, [utterance])[2][0].tensors for own in (model, fast))
        assert int((expected["counts"] - got["counts"]).abs().max()) <= 1
        if got["pitch"].shape == expected["pitch"].shape:
            assert relative(got["pitch"].view(-1), expected["pitch"].view(-1).numpy()) < 0.02
            spectra = expected["spectra"][..., :NUM_BINS].reshape(-1).numpy()
            assert relative(got["spectra"][..., :NUM_BINS].reshape(-1), spectra) < 0.03


def test_a_batch_is_what_each_is_alone(model: Hibari) -> None:
    utterances = [utterance_of(model, *sentence) for sentence in SENTENCES]
    together = [speech for state in states(model, utterances)[-1] for speech in model.speech(state)]
    for utterance, speech in zip(utterances, together, strict=True):
        [alone] = model.speech(states(model, [utterance])[-1][0])
        assert torch.equal(speech.samples, alone.samples)


def test_the_seed_decides_the_noise(model: Hibari) -> None:
    sounds = [
        model.speech(states(model, [utterance_of(model, "nˈO!", 1.0, seed)])[-1][0])[0].samples for seed in (1, 1, 2)
    ]
    assert torch.equal(sounds[0], sounds[1]) and not torch.equal(sounds[0], sounds[2])


def test_letters_to_sounds(model_path: Callable[[str], Path]) -> None:
    for name in ("oov", "oov_gb"):
        path = model_path("english-phonemes").parent / f"{name}.onnx"
        ours, reference = LetterToSound.from_checkpoint(open_checkpoint(path)), OnnxReference(path)
        for word in ("Kubernetes", "zsofia", "blorptacular", "Xi", "ångström"):
            ids = [ours.letters[letter] for letter in word if letter in ours.letters]
            expected = reference(chars=np.array([ids]))["ids"][0].tolist()
            with torch.inference_mode():
                assert ours.forward(torch.tensor(ids)).argmax(-1).tolist() == expected
                assert ours.pronounce(word)
        assert ours.pronounce("漢字") is None
        assert ours.pronounce("a" * 100)


def relative(got: torch.Tensor, expected: np.ndarray) -> float:
    wanted = np.asarray(expected, np.float64).reshape(-1)
    return float(np.linalg.norm(got.double().reshape(-1).numpy() - wanted) / np.linalg.norm(wanted))
