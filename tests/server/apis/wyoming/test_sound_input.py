"""Sound of every width, rate and number of channels becomes mono at 16 kHz, however it is divided."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.audio.resample import resample
from antiphon.server.apis.wyoming.events import SoundFormat, sound_format
from antiphon.server.apis.wyoming.frames import Frame
from antiphon.server.apis.wyoming.sound_input import WyomingSoundInput
from antiphon.server.web.http.errors import ApiError
from support.sound.sounds import Floats, tone


def encoded(samples: Floats, width: int) -> bytes:
    if width == 1:
        return (np.rint(samples * 127) + 128).astype(np.uint8).tobytes()
    if width == 3:
        wide = np.rint(samples.astype(np.float64) * (2**31 - 256)).astype("<i4")
        return wide.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
    return np.rint(samples.astype(np.float64) * (2 ** (8 * width - 1) - 1)).astype(f"<i{width}").tobytes()


def converted(data: bytes, format: SoundFormat, step: int) -> Floats:
    sound = WyomingSoundInput()
    pieces = [sound.push(data[start : start + step], format) for start in range(0, len(data), step)]
    return np.concatenate([*pieces, sound.finish()])


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format(width: int, rate: int, channels: int) -> None:
    mono = tone(0.1, rate=rate)
    interleaved = np.repeat(mono, channels) if channels == 1 else np.stack([mono * 1.5, mono * 0.5], 1).ravel()
    data = encoded(interleaved.astype(np.float32), width)
    format = SoundFormat(rate, width, channels)
    wanted = resample(mono, rate, 16_000)
    whole = converted(data, format, len(data))
    np.testing.assert_allclose(whole, wanted, atol=0.02 if width == 1 else 1e-3)
    for step in (1, 7, 1001) if rate == 8_000 else (1001,):  # also in the middle of samples
        np.testing.assert_array_equal(converted(data, format, step), whole)


def test_channels_of_opposite_phase_do_not_cancel() -> None:
    mono = tone(0.5, rate=48_000)
    data = encoded(np.stack([mono, -mono], 1).ravel(), 2)
    whole = converted(data, SoundFormat(48_000, 2, 2), len(data))
    after_fade = 16_000 // 20
    np.testing.assert_allclose(whole[after_fade:], resample(mono, 48_000, 16_000)[after_fade:], atol=1e-3)
    np.testing.assert_array_equal(converted(data, SoundFormat(48_000, 2, 2), 1001), whole)


def test_a_change_of_format_on_the_way() -> None:
    sound = WyomingSoundInput()
    first = tone(0.25, rate=48_000)
    made = [
        sound.push(encoded(first, 2), SoundFormat(48_000, 2, 1)),
        sound.push(b"\x80" * 800, SoundFormat(8_000, 1, 1)),
    ]
    made.append(sound.finish())
    found = np.concatenate(made)
    assert len(found) == pytest.approx(4_000 + 1_600, abs=2)
    np.testing.assert_allclose(found[:4_000], resample(first, 48_000, 16_000)[:4_000], atol=1e-3)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"rate": 1, "width": 2, "channels": 1}, "rate is 1; it must be from 2000"),
        ({"rate": 16_000, "width": 5, "channels": 1}, "width is 5"),
        ({"rate": 16_000, "width": 0, "channels": 1}, "width is 0"),
        ({"rate": 16_000, "width": 2, "channels": 33}, "channels is 33; it must be from 1 to 32"),
        ({"rate": 16_000, "width": 2, "channels": 0}, "channels is 0"),
        ({"rate": "16000", "width": 2, "channels": 1}, "rate must be a whole number"),
        ({"rate": 16_000, "channels": 1}, "width must be a whole number"),
        ({"rate": True, "width": 2, "channels": 1}, "rate must be a whole number"),
    ],
)
def test_formats_that_are_rejected(data: dict[str, object], told: str) -> None:
    with pytest.raises(ApiError, match=told):
        sound_format(Frame("audio-start", data))
