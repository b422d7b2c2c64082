"""Smart Turn against its own graph: with floats between the layers, and as onnxruntime runs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import WhisperFeatureExtractor

from antiphon.audio.decode import decode
from antiphon.errors import CheckpointError
from antiphon.models.base.companions import END_OF_TURN
from antiphon.models.base.model import Task
from antiphon.models.base.parts import Detector
from antiphon.models.registry import build_model
from antiphon.models.smart_turn import SmartTurn
from antiphon.runtime.loading.loading import load_model
from antiphon.weights.formats.memory import StateDictCheckpoint
from antiphon.weights.formats.open import open_checkpoint
from models.test_purity import only_ops_and_views
from support.models.onnx_graphs import OnnxReference
from support.sound.sounds import Floats, noise, silence
from support.sound.speech import jfk, librivox_clips

RATE = 16_000
HIDDEN, MELS, STATES, INNER = 128, 80, 400, 192


def random_state(layers: int = 2) -> dict[str, torch.Tensor]:
    """A small network's tensors under the names of the file."""
    source = torch.Generator().manual_seed(11)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=source) * 0.1

    state = {
        "inner.encoder.conv1.weight": random(HIDDEN, MELS, 3),
        "inner.encoder.conv2.weight": random(HIDDEN, HIDDEN, 3),
        "inner.encoder.embed_positions.weight": random(STATES, HIDDEN),
        "inner.pool_attention.0.weight": random(48, HIDDEN),
        "inner.pool_attention.2.weight": random(1, 48),
        "inner.classifier.0.weight": random(32, HIDDEN),
        "inner.classifier.4.weight": random(16, 32),
        "inner.classifier.6.weight": random(1, 16),
    }
    for index in range(layers):
        prefix = f"inner.encoder.layers.{index}"
        for name in ("q_proj", "v_proj", "out_proj"):
            state[f"{prefix}.self_attn.{name}.weight"] = random(HIDDEN, HIDDEN)
        state[f"node_linear_{6 * index + 1}.weight"] = random(HIDDEN, HIDDEN)
        state[f"{prefix}.fc1.weight"] = random(INNER, HIDDEN)
        state[f"{prefix}.fc2.weight"] = random(HIDDEN, INNER)
    biased = [name for name in state if name.startswith("inner.") and "embed_positions" not in name]
    state |= {name.replace("weight", "bias"): random(state[name].shape[0]) for name in biased}
    norms = [
        f"inner.encoder.layers.{index}.{kind}_layer_norm" for index in range(layers) for kind in ("self_attn", "final")
    ]
    for name in [*norms, "inner.encoder.layer_norm"]:
        state |= {f"{name}.weight": 1 + random(HIDDEN), f"{name}.bias": random(HIDDEN)}
    return state | {"inner.classifier.1.weight": 1 + random(32), "inner.classifier.1.bias": random(32)}


@cache
def tiny() -> SmartTurn:
    checkpoint = StateDictCheckpoint(random_state(), "smart-turn", {})
    model = build_model(checkpoint)
    assert isinstance(model, SmartTurn) and checkpoint.unused() == []
    return model


def theirs(samples: Floats) -> Floats:
    """Features [mels, 800] by the extractor that the network was trained with."""
    window = np.pad(samples[-8 * RATE :], (max(0, 8 * RATE - len(samples)), 0))
    extractor = WhisperFeatureExtractor(chunk_length=8)
    options = dict(sampling_rate=RATE, padding="max_length", max_length=8 * RATE, truncation=True, do_normalize=True)
    found: Floats = extractor(window, return_tensors="np", **options).input_features[0]
    return found


@cache
def recordings() -> list[Floats]:
    return [decode(path, rate=RATE).values for path in (jfk(), *(path for path, _ in librivox_clips()))]


def cuts(count: int, seed: int = 0) -> list[Floats]:
    """Speech cut off anywhere after its first half second, followed by 200 ms of quiet."""
    source = np.random.default_rng(seed)
    clips = recordings()
    out = []
    for index in range(count):
        clip = clips[index % len(clips)]
        end = int(source.integers(RATE // 2, len(clip) + 1))
        out.append(np.concatenate([clip[:end], noise(0.2, seed=index, level=1e-4)]))
    return out


@pytest.mark.parametrize("seconds", [0.0, 0.5, 3.0, 8.0, 11.3])
def test_features_are_the_extractors(seconds: float) -> None:
    """The extractor's are up to 3.3e-6 from what float64 gives, ours 0.5e-6."""
    samples = noise(seconds, seed=4)
    np.testing.assert_allclose(tiny().features(samples).T, theirs(samples), rtol=0, atol=1e-5)


def test_a_look_does_not_depend_on_the_others() -> None:
    model = tiny()
    sounds = [noise(1.0, seed=1), silence(0.0), noise(9.0, seed=2), noise(3.0, seed=3)]
    part = model.part(Detector)
    assert part is not None and model.task is Task.END_OF_TURN and [part.size(sound) for sound in sounds] == [1] * 4
    alone = [part.run([sound])[0] for sound in sounds]
    assert part.run(sounds) == alone and len(set(alone)) == 4 and all(0 < value < 1 for value in alone)
    # Only the last eight seconds count.
    assert part.run([np.concatenate([noise(5.0, seed=9), sounds[2][-8 * RATE :]])]) == [alone[2]]


def test_only_ops_and_views(monkeypatch: pytest.MonkeyPatch) -> None:
    features, seq_start = torch.randn(2, 2 * STATES, MELS), torch.tensor([0, STATES, 2 * STATES], dtype=torch.int32)
    with only_ops_and_views(monkeypatch):
        tiny().forward(features, seq_start)


def test_a_network_without_its_pooling_is_rejected() -> None:
    state = {name: tensor for name, tensor in random_state().items() if "pool" not in name}
    with pytest.raises(CheckpointError, match=r"no tensor 'inner\.pool_attention\.0\.bias'"):
        build_model(StateDictCheckpoint(state, "smart-turn", {}))


@pytest.mark.weights
def test_floats_equal_the_decoded_graph(model_path: Callable[[str], Path]) -> None:
    path = model_path(END_OF_TURN)
    checkpoint = open_checkpoint(path)
    model = build_model(checkpoint)
    assert isinstance(model, SmartTurn) and checkpoint.unused() == []
    reference = OnnxReference(path, unquantised=True)
    sounds = [*cuts(7), silence(1.0), noise(8.0)]
    expected = [reference(input_features=theirs(sound)[None])["logits"].item() for sound in sounds]
    assert np.abs(np.array(model.detect(sounds)) - expected).max() < 1e-5
    assert min(expected) < 0.1 and max(expected) > 0.9


@pytest.mark.weights
@pytest.mark.slow
def test_decides_as_onnxruntime_does(model_path: Callable[[str], Path], soak: bool) -> None:
    """The model in int8, as an engine loads it, beside onnxruntime on the decoded graph."""
    reference = OnnxReference(model_path(END_OF_TURN), unquantised=True)
    model = load_model(END_OF_TURN, offline=True).model
    assert isinstance(model, SmartTurn)
    sounds = cuts(300 if soak else 12)
    expected = np.array([reference(input_features=model.features(sound).T[None])["logits"].item() for sound in sounds])
    found = np.concatenate([model.detect(sounds[start : start + 8]) for start in range(0, len(sounds), 8)])
    assert ((found > 0.5) == (expected > 0.5)).mean() >= 0.97 and np.abs(found - expected).mean() < 0.02
    assert 0.05 < (expected > 0.5).mean() < 0.95
