"""Silero VAD against its package's own network, on the same weights and real speech."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import silero_vad
import torch
from torch import Tensor

from antiphon import ops
from antiphon.audio.decode import decode
from antiphon.audio.resample import resample
from antiphon.audio.segments import SegmentOptions, speech_segments
from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.models.base.model import Task
from antiphon.models.registry import build_model
from antiphon.models.silero_vad import SileroVAD, voice_probabilities
from antiphon.weights.formats.memory import StateDictCheckpoint
from antiphon.weights.formats.open import open_checkpoint
from models.test_purity import only_ops_and_views
from support.sound.sounds import Floats, chords, noise, silence
from support.sound.speech import jfk, librivox_clips

#: The package's names of a network's tensors → those of its safetensors file.
NAMES = {
    "stft.forward_basis_buffer": "stft_conv.weight",
    **{f"encoder.{n}.reparam_conv.{kind}": f"conv{n + 1}.{kind}" for n in range(4) for kind in ("weight", "bias")},
    **{f"decoder.rnn.{name}": f"lstm_cell.{name}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")},
    **{f"decoder.decoder.2.{kind}": f"final_conv.{kind}" for kind in ("weight", "bias")},
}
PARTS = {16_000: "_model.", 8_000: "_model_8k."}


def package_network() -> Any:
    return silero_vad.load_silero_vad()


@cache
def package_model(rate: int) -> SileroVAD:
    """Our model on the weights inside the package's own network."""
    network, part = package_network(), PARTS[rate]
    state = {ours: network.state_dict()[part + theirs] for theirs, ours in NAMES.items()}
    return build(state)


def build(state: Mapping[str, Tensor]) -> SileroVAD:
    model = build_model(StateDictCheckpoint(state, "silero-vad", {}))
    assert isinstance(model, SileroVAD)
    return model


def package_probabilities(network: Any, samples: Floats, rate: int) -> Floats:
    network.reset_states()
    chunk = rate * 512 // 16_000
    padded = torch.from_numpy(np.pad(samples, (0, -len(samples) % chunk)))
    with torch.inference_mode():
        return np.array([network(part, rate).item() for part in padded.split(chunk)], np.float32)


def probabilities(model: SileroVAD, samples: Floats) -> Floats:
    return voice_probabilities(model, [samples], [model.initial_state()], final=True)[0]


def sound(seconds: float = 4.0, seed: int = 0) -> Floats:
    """Noise, chords and silence in turns."""
    third = seconds / 3
    return np.concatenate([noise(third, seed=seed), chords(third, seed=seed), silence(third)])


@cache
def speech(rate: int = 16_000) -> Floats:
    recordings = [decode(path, rate=rate).values for path in (jfk(), *(path for path, _ in librivox_clips()[:1]))]
    return np.concatenate(recordings)


@pytest.mark.parametrize("backend", ops.available_backends())
@pytest.mark.parametrize("rate", [16_000, 8_000])
def test_equals_the_package(rate: int, backend: str) -> None:
    samples = sound() if rate == 16_000 else resample(sound(), 16_000, rate)
    with ops.use_backend(backend):
        model = package_model(rate)
        assert model.rate == rate and model.chunk_seconds == 0.032 and model.task is Task.VOICE_ACTIVITY
        found = probabilities(model, samples)
    assert np.abs(found - package_probabilities(package_network(), samples, rate)).max() < 1e-4


@pytest.mark.weights
@pytest.mark.parametrize("rate", [16_000, 8_000])
def test_equals_the_package_on_speech(rate: int) -> None:
    found = probabilities(package_model(rate), speech(rate))
    assert np.abs(found - package_probabilities(package_network(), speech(rate), rate)).max() < 1e-4
    assert 0.7 < (found > 0.5).mean() < 0.95


@pytest.mark.weights
def test_the_catalog_model_on_speech(model_path: Callable[[str], Path]) -> None:
    """The safetensors file holds other weights than the package's network: they are put into it for the comparison."""
    path = model_path("silero-vad")
    checkpoint = open_checkpoint(path)
    model = build_model(checkpoint)
    assert isinstance(model, SileroVAD) and checkpoint.unused() == []
    network, stored = package_network(), safetensors.torch.load_file(path)
    with torch.no_grad():
        for theirs, ours in NAMES.items():
            network.state_dict()[PARTS[16_000] + theirs].copy_(stored[ours])
    difference = probabilities(model, speech()) - package_probabilities(network, speech(), 16_000)
    assert np.abs(difference).max() < 1e-4
    # The clips come with labels of where speech begins and ends, made by another detector.
    for clip, _ in librivox_clips():
        samples = decode(clip).values
        options = SegmentOptions(padding=0.0)
        found = speech_segments(probabilities(model, samples), 0.032, len(samples) / 16_000, options)
        lines = clip.with_suffix(".lab").read_text().splitlines()
        start, end = (float(line.split()[0]) for line in lines[:2])
        assert abs(found[0].start - start) < 0.25 and abs(found[-1].end - end) < 0.25
    for quiet in (silence(5), noise(5, level=0.01), chords(5)):
        assert probabilities(model, quiet).max() < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_streams_cut_anywhere(seed: int) -> None:
    model, samples = package_model(16_000), sound(seed=seed)
    source = np.random.default_rng(seed)
    state, position, parts = model.initial_state(), 0, []
    while position < len(samples):
        step = int(source.integers(1, (100, 2000, 30_000)[seed]))
        parts += voice_probabilities(model, [samples[position : position + step]], [state])
        position += step
    parts += voice_probabilities(model, [silence(0)], [state], final=True)
    np.testing.assert_allclose(np.concatenate(parts), probabilities(model, samples), rtol=0, atol=1e-6)


def restarted_by_hand(model: SileroVAD, samples: Floats, limit: int, level: float) -> tuple[Floats, int]:
    """Probabilities chunk by chunk, and how often the LSTM began anew after `limit` chunks without speech."""
    state, quiet, restarts, parts = model.initial_state(), 0, 0, []
    for start in range(0, len(samples), model.chunk):
        parts += voice_probabilities(model, [samples[start : start + model.chunk]], [state], final=True)
        quiet = 0 if parts[-1][0] >= level else quiet + 1
        if quiet == limit:
            state.hidden, quiet, restarts = torch.zeros_like(state.hidden), 0, restarts + 1
    return np.concatenate(parts), restarts


@pytest.mark.parametrize("seed", range(3))
def test_the_lstm_begins_anew_after_chunks_without_speech(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a stream is cut, and whatever streams share its batch."""
    model = package_model(16_000)
    sounds = [np.concatenate([noise(1, seed=seed), sound(2, seed), silence(1)]), sound(1.5, seed + 9), noise(2.2)]
    # Random weights: as many chunks are quiet as not.
    level = float(np.median(np.concatenate([probabilities(model, each) for each in sounds])))
    monkeypatch.setattr("antiphon.models.silero_vad.QUIET_PROBABILITY", level)
    by_hand = [restarted_by_hand(model, each, 4, level) for each in sounds]
    assert sum(restarts for _, restarts in by_hand) >= 3
    together = voice_probabilities(model, sounds, [model.initial_state(4 * 0.032) for _ in sounds], final=True)
    for (expected, _), found in zip(by_hand, together, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    state, parts, position = model.initial_state(4 * 0.032), [], 0
    for size in np.random.default_rng(seed).integers(1, 9000, 200).tolist():
        parts += voice_probabilities(model, [sounds[0][position : position + size]], [state])
        position += size
    parts += voice_probabilities(model, [silence(0)], [state], final=True)
    np.testing.assert_allclose(np.concatenate(parts), by_hand[0][0], rtol=0, atol=1e-6)


def test_ragged_streams_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = package_model(16_000)
    monkeypatch.setattr("antiphon.models.silero_vad._BLOCK_CHUNKS", 64)
    sounds = [sound(4, 1), silence(0), noise(0.01), sound(1.3, 2), sound(2.7, 3)]
    states = [model.initial_state() for _ in sounds]
    found = voice_probabilities(model, sounds, states, final=True)
    for alone, together in zip(sounds, found, strict=True):
        np.testing.assert_allclose(together, probabilities(model, alone), rtol=0, atol=1e-6)
    again = voice_probabilities(model, [noise(0.1)] * 5, states, final=True)
    lone = model.initial_state()
    voice_probabilities(model, [sounds[3]], [lone], final=True)
    expected = voice_probabilities(model, [noise(0.1)], [lone], final=True)[0]
    np.testing.assert_allclose(again[3], expected, rtol=0, atol=1e-6)


def test_only_ops_and_views(monkeypatch: pytest.MonkeyPatch) -> None:
    model = package_model(16_000)
    memory = torch.randn(2 * 3 * 640 + 128)
    lengths, state = torch.tensor([3, 2]), (torch.zeros(1, 2, 128), torch.zeros(1, 2, 128))
    with only_ops_and_views(monkeypatch):
        model.recur(model.features(memory[:-128].view(2, 3, 640)), lengths, state)


def test_unknown_sizes_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="spectra of 512 points; known: 256, 128"):
        build({"stft_conv.weight": torch.zeros(514, 1, 512)})


def test_other_safetensors_without_a_config_are_refused(tmp_path: Path) -> None:
    safetensors.torch.save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match=r"safetensors without a config\.json beside it"):
        open_checkpoint(tmp_path / "other.safetensors")
