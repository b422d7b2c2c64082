"""Log-mel frames against transformers' extractor."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from antiphon.audio.mel import (
    HOP,
    WINDOW_FRAMES,
    log_mel,
    mel_filters,
    normalize,
    pad_frames,
    window_features,
)
from antiphon.errors import AudioError
from support.sound.sounds import Floats, chords, noise, silence, tone


def expected(samples: Floats, num_mels: int) -> Floats:
    """What transformers makes of a window, in double precision, as [frames, mels]."""
    extractor = WhisperFeatureExtractor(feature_size=num_mels)
    padded = np.pad(samples, (0, 480_000 - len(samples)))
    features: Floats = extractor._np_extract_fbank_features(padded[None], "cpu")[0].T
    return features


def loud_then_quiet() -> Floats:
    """Bands 8 decades apart in one window, where single precision would show."""
    return np.concatenate([tone(3, 1000, level=0.9) + noise(3, level=1e-5), noise(4, level=1e-6, seed=1)])


@pytest.mark.parametrize("num_mels", [80, 128])
def test_filters_equal_the_extractors(num_mels: int) -> None:
    extractor = WhisperFeatureExtractor(feature_size=num_mels)
    assert np.abs(mel_filters(num_mels) - extractor.mel_filters).max() < 1e-12


@pytest.mark.parametrize("num_mels", [80, 128])
@pytest.mark.parametrize(
    "samples",
    [
        noise(30),
        loud_then_quiet(),
        chords(12.3),
        noise(29.99),
        noise(0.05),
        noise(0.01),
        noise(1)[:1],
        silence(0),
        silence(5),
    ],
    ids=["full", "loud-then-quiet", "chords", "almost-full", "50ms", "10ms", "one-sample", "empty", "silence"],
)
def test_window_equals_the_extractors(samples: Floats, num_mels: int) -> None:
    features = window_features(samples, num_mels)
    assert features.shape == (WINDOW_FRAMES, num_mels)
    assert features.dtype == np.float32
    assert np.abs(features - expected(samples, num_mels)).max() < 1e-5


def test_a_window_cut_from_a_recording_is_the_window() -> None:
    """Frames of one long recording, cut and normalised, differ from the window's own only at its mirrored edges."""
    samples = noise(40)
    frames = log_mel(samples, 80)[500:3500]
    own = window_features(samples[500 * HOP : 3500 * HOP], 80)
    assert np.abs(normalize(frames)[2:-2] - own[2:-2]).max() < 1e-5


def test_too_much_for_a_window() -> None:
    with pytest.raises(AudioError, match=r"30\.01 s of sound do not fit a window of 30 s"):
        window_features(noise(30.01), 80)
    with pytest.raises(AudioError, match="5 frames do not fit a window of 4"):
        pad_frames(np.zeros((5, 80), np.float32), 4)
