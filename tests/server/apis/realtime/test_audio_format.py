"""Sound on the wire: any chunk length, resampled in pieces as at once; G.711 both ways."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from antiphon.audio.pcm import to_alaw, to_floats, to_mulaw, to_s16
from antiphon.audio.resample import resample
from antiphon.server.apis.realtime.audio_format import (
    AudioFormat,
    RealtimeSoundInput,
    SoundOutput,
    decode_base64,
    decoded_sound,
)
from antiphon.server.apis.realtime.wire_errors import WireError

TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)).astype(np.float32)


@pytest.mark.parametrize("format", AudioFormat)
def test_chunks_of_any_length_give_the_same_sound(format: AudioFormat) -> None:
    samples = TONE[:: 24_000 // format.rate]
    data = {AudioFormat.PCMU: to_mulaw, AudioFormat.PCMA: to_alaw}.get(format, lambda x: to_s16(x).tobytes())(samples)
    whole = decoded_sound(data, format)
    sizes = np.random.default_rng(0).integers(1, 700, 1000)
    sound, pieces, start = RealtimeSoundInput(format), [], 0
    for size in sizes:
        pieces.append(sound.push(data[start : start + size]))
        start += size
    assert start > len(data)
    pieces.append(sound.flush())
    assert np.array_equal(np.concatenate(pieces), whole)
    assert len(whole) == 16_000 and np.abs(whole - resample(samples, format.rate, 16_000)).max() < 0.02
    assert format.seconds(len(data)) == 1.0


@pytest.mark.parametrize("format", AudioFormat)
def test_output_is_resampled_in_pieces(format: AudioFormat) -> None:
    output = SoundOutput(format, 24_000)
    data = b"".join(output.push(piece) for piece in np.array_split(TONE, 37)) + output.finish()
    heard = to_floats(data, format.encoding)
    assert len(heard) == format.rate
    assert np.abs(heard - resample(TONE, 24_000, format.rate)).max() < (1e-4 if format is AudioFormat.PCM else 0.02)


@pytest.mark.parametrize(("encoding", "encode"), [("mulaw", to_mulaw), ("alaw", to_alaw)])
def test_g711_takes_the_nearest_value(encoding: str, encode: object) -> None:
    levels = to_floats(bytes(range(256)), encoding)  # type: ignore[arg-type]
    assert np.array_equal(to_floats(encode(levels), encoding), levels)  # type: ignore[arg-type,operator]
    values = (np.arange(-32768, 32768) / 32768).astype(np.float32)
    got = to_floats(encode(values), encoding)  # type: ignore[arg-type,operator]
    nearest = np.abs(values[:, None] - levels[None, :]).min(1)
    assert np.array_equal(np.abs(got - values), nearest)


def test_base64_is_checked() -> None:
    data = bytes(range(256)) * 3000
    assert decode_base64(base64.b64encode(data).decode(), "audio", 1 << 20) == data
    for wrong in ("####", "abc", "YWJj\nYWJj", "YQ==YQ=="):
        with pytest.raises(WireError) as rejected:
            decode_base64(wrong, "audio", 100)
        assert rejected.value.code == "invalid_audio" and rejected.value.param == "audio"
    with pytest.raises(WireError, match="at most 100"):
        decode_base64("A" * 400, "audio", 100)
