"""Kokoro on its real weights, held against onnxruntime on the same file.

The phase of the harmonic source is the pitch added up over the utterance, tens of thousands of radians: rounding of
the last bit of the pitch moves it, and onnxruntime itself gives sounds 2 % apart with and without its graph
optimisations. So the waveform is compared for the same source, and from end to end by its spectrum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.module import Halvable
from antiphon.models.base.speech_state import Speech, SpeechState, Utterance
from antiphon.models.kokoro.model import Kokoro
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from antiphon.weights.formats.open import open_checkpoint
from support.models.onnx_graphs import Array, OnnxReference

pytestmark = [pytest.mark.weights, pytest.mark.slow]

DECODER = "/decoder/decoder"
DURATIONS, PITCH, ENERGY = "/encoder/Clip_output_0", f"{DECODER}/Unsqueeze_output_0", f"{DECODER}/Unsqueeze_1_output_0"
SPECTRUM = f"{DECODER}/generator/Concat_3_output_0"

SENTENCES = [
    ("həlˈO ðˈɛɹ?", "af_bella", 1.0),
    ("ɡˈO hˈOm.", "am_adam", 0.8),
]
SOAK_VOICES = ("af_heart", "af_sky", "am_michael", "bf_emma", "bm_george")
SOAK_SENTENCES = [
    "jˈɛs.", "nˈO!", "wˌʌt ɐ dˈA!", "ˌI ɹˈɛd ðə ɹˈɛkəɹd jˈɛstəɹdˌA.", "ʃˌi jˈust tə lˈɪv ɪn ˈIəwə.",
    "nˈæsə ænd ði ˌɛfbˌiˈI mˈɛt ɪn ðə jˌuˌɛsˈA.", "ˈɪz ɪt ɹˈAnɪŋ ɹˈIt nˈW?", "wˈʌn, tˈu, θɹˈi, fˈɔɹ, fˈIv.",
    "ðə wˈɛðəɹ ɪz fˈIn.", "plˈiz kˈɔl mˌi bˈæk.", "hˌi ˈæst, “wˌI nˈɑt?”", "ɪt ɪz lˈAt; ɡˈO hˈOm.",
    "ðə mˈitɪŋ stˈɑɹts æt nˈIn.", "tˈu mˈɪljən pˈipᵊl kˈAm.", "ɡˈʊd mˈɔɹnɪŋ, dˈɑktəɹ.", "ðˈæts ˈɔl fˈoks.",
    "kʊd ju ɹəpˈit ðˈæt?", "sˈi ju təmˈɑɹO ˈivnɪŋ.", "ðə tɹˈAn wʌz lˈAt əɡˈɛn.", "θˈæŋk ju vˈɛɹi mˈʌʧ.",
]  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The model and the graph that it is an export of."""

    model: Kokoro
    reference: OnnxReference
    folder: Path

    def utterance(self, phonemes: str, voice: str, speed: float = 1.0) -> Utterance:
        ids = [0, *(self.model.symbols[symbol] for symbol in phonemes), 0]
        styles = np.fromfile(self.folder / "voices" / f"{voice}.bin", "<f4").reshape(-1, 256)
        return Utterance(ids, torch.from_numpy(styles[len(ids) - 2]), speed)

    def expected(self, utterance: Utterance) -> dict[str, Array]:
        return self.reference(
            input_ids=np.array([utterance.ids]),
            style=utterance.style.numpy()[None],
            speed=np.array([utterance.speed], np.float32),
        )


@pytest.fixture(scope="module")
def pair(model_path: Callable[[str], Path]) -> Pair:
    path = model_path("kokoro-82m")
    model = Kokoro.from_checkpoint(open_checkpoint(path))
    return Pair(model, OnnxReference(path, [DURATIONS, PITCH, ENERGY, SPECTRUM]), path.parent)


def advance(model: Kokoro, states: list[SpeechState], first: str, last: str) -> list[SpeechState]:
    with torch.inference_mode():
        for stage in range(model.stages.index(first), model.stages.index(last) + 1):
            states = model.advance(stage, states)
    return states


def speak(model: Kokoro, utterances: list[Utterance]) -> list[Speech]:
    states = advance(model, [SpeechState((utterance,)) for utterance in utterances], "text", "waveform")
    return [speech for state in states for speech in model.speech(state)]


def relative(got: Tensor, expected: Array) -> float:
    wanted = torch.from_numpy(np.array(expected, np.float64)).view(-1)
    return float((got.double().view(-1) - wanted).norm() / wanted.norm())


def log_spectrum(sound: Tensor) -> Tensor:
    spectrum = torch.stft(sound, 512, 128, window=torch.hann_window(512), return_complex=True).abs()
    return (spectrum + 1e-3 * spectrum.max()).log()


def check(pair: Pair, phonemes: str, voice: str, speed: float) -> None:
    model = pair.model
    utterance = pair.utterance(phonemes, voice, speed)
    expected = pair.expected(utterance)
    [prosody] = advance(model, [SpeechState((utterance,))], "text", "source")
    assert prosody.tensors["counts"].view(-1).tolist() == expected[DURATIONS].reshape(-1).astype(int).tolist()
    assert relative(prosody.tensors["pitch"], expected[PITCH]) < 1e-5
    assert relative(prosody.tensors["energy"], expected[ENERGY]) < 1e-5
    theirs = torch.from_numpy(expected[SPECTRUM]).transpose(1, 2).contiguous()
    [same_source] = advance(model, [prosody.with_(spectrum=theirs)], "decoder", "waveform")
    waveform = model.speech(same_source)[0].samples
    assert relative(waveform, expected["waveform"]) < 1e-3
    assert float((waveform - torch.from_numpy(expected["waveform"][0])).abs().max()) < 1e-3
    [own] = advance(model, [prosody], "decoder", "waveform")
    difference = log_spectrum(model.speech(own)[0].samples) - log_spectrum(torch.from_numpy(expected["waveform"][0]))
    assert float(difference.abs().mean()) < 0.1  # natural logarithm: 10 % of the level


@pytest.mark.parametrize(("phonemes", "voice", "speed"), SENTENCES)
def test_agrees_with_onnxruntime(pair: Pair, phonemes: str, voice: str, speed: float) -> None:
    check(pair, phonemes, voice, speed)


@pytest.mark.soak
def test_agrees_with_onnxruntime_for_many(pair: Pair) -> None:
    for voice in SOAK_VOICES:
        for phonemes in SOAK_SENTENCES:
            check(pair, phonemes.replace("o", "O"), voice, 1.0)


def test_16_bits_stay_near(pair: Pair, model_path: Callable[[str], Path]) -> None:
    """On a processor that computes in them; elsewhere this is the same model again."""
    fast = Kokoro.from_checkpoint(open_checkpoint(model_path("kokoro-82m")))
    prepare(fast, LoadReport(), WeightOptions(precision="fast"))
    utterance = pair.utterance(*SENTENCES[0])
    [prosody] = advance(pair.model, [SpeechState((utterance,))], "text", "source")
    [own] = advance(fast, [SpeechState((utterance,))], "text", "source")
    assert own.tensors["counts"].tolist() == prosody.tensors["counts"].tolist()
    assert relative(own.tensors["pitch"], prosody.tensors["pitch"].numpy()) < 5e-3
    [full] = advance(pair.model, [prosody], "decoder", "waveform")
    [near] = advance(fast, [prosody], "decoder", "waveform")
    expected, got = (model.speech(state)[0].samples for model, state in ((pair.model, full), (fast, near)))
    assert relative(got, expected.numpy()) < 0.03
    assert float((log_spectrum(got) - log_spectrum(expected)).abs().mean()) < 0.03
    both = [utterance, pair.utterance(*SENTENCES[1])]
    for alone, speech in zip(both, speak(fast, both), strict=True):
        torch.testing.assert_close(speech.samples, speak(fast, [alone])[0].samples, rtol=0, atol=1e-4)


def test_prosody_stays_in_fp32_beside_bf16(model_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops.active_backend(), "half_type", lambda: torch.bfloat16)
    fast = Kokoro.from_checkpoint(open_checkpoint(model_path("kokoro-82m")))
    prepare(fast, LoadReport(), WeightOptions(precision="fast"))
    parts = [node for part in fast.prosody_modules() for node in part.modules()]
    assert parts and not any(node.half for node in parts if isinstance(node, Halvable))
    assert not any(weight.packed for node in parts for weight in node.weights())
    assert all(node.half for node in fast.generator.modules() if isinstance(node, Halvable))


def test_a_ragged_batch_is_what_each_is_alone(pair: Pair, soak: bool) -> None:
    sentences = [("ɡˈO!", "bf_emma", 0.9), ("jˈɛs, ˌI nˈO.", "am_adam", 0.7)]
    if soak:
        sentences += [*SENTENCES, *((text, "af_sky", 1.0) for text in SOAK_SENTENCES[:4])]
    utterances = [pair.utterance(*sentence) for sentence in sentences]
    together = speak(pair.model, utterances)
    for utterance, speech in zip(utterances, together, strict=True):
        [alone] = speak(pair.model, [utterance])
        assert speech.id_samples == alone.id_samples
        assert sum(speech.id_samples) == len(speech.samples)
        torch.testing.assert_close(speech.samples, alone.samples, rtol=0, atol=1e-4)
