"""Every format decodes back to the same sound, and its bytes leave while sound is still coming."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from antiphon.audio.decode import decode
from antiphon.audio.encode import FORMATS, AudioEncoder, AudioFormat, encode
from antiphon.audio.samples import RawFormat
from antiphon.errors import AudioError
from support.sound.sounds import Floats, chords, lag_and_ratio, noise

#: Least signal-to-noise ratio in dB, and samples at the coded rate that stand before the sound.
QUALITY: dict[AudioFormat, tuple[float, int]] = {
    "wav": (70, 0), "pcm": (70, 0), "pcm_f32le": (140, 0), "mp3": (20, 1105), "opus": (12, 0), "aac": (20, 1024),
    "flac": (70, 0),
}  # fmt: skip
RAW = {"pcm": "s16le", "pcm_f32le": "f32le"}


def raw_format(format: AudioFormat, rate: int, channels: int) -> RawFormat | None:
    return RawFormat(RAW[format], rate, channels) if format in RAW else None  # type: ignore[arg-type]


def pieces(encoder: AudioEncoder, samples: Floats, step: int) -> list[bytes]:
    out = [encoder.push(samples[start : start + step]) for start in range(0, len(samples), step)]
    return [*out, encoder.finish()]


@pytest.mark.parametrize(("rate", "channels"), [(24_000, 1), (22_050, 1), (44_100, 2)])
@pytest.mark.parametrize("format", FORMATS)
def test_formats_decode_back(format: AudioFormat, rate: int, channels: int) -> None:
    mono = chords(2, rate)
    samples = mono if channels == 1 else np.stack([mono, mono], axis=1)
    encoder = AudioEncoder(format, rate, channels)
    data = b"".join(pieces(encoder, samples, rate // 40))
    decoded = decode(data, rate=rate, raw=raw_format(format, rate, channels))
    assert decoded.source.channels == channels
    lag, ratio = lag_and_ratio(decoded.values, mono)
    least, lead = QUALITY[format]
    assert ratio > least
    assert abs(lag - lead * rate / encoder.coded_rate) <= 1
    assert 0 <= len(decoded.values) - len(mono) < 0.12 * rate


@pytest.mark.parametrize("format", FORMATS)
def test_bytes_leave_at_once(format: AudioFormat) -> None:
    """At any moment what has left decodes to all but the codec's own frame and delay of what went in."""
    rate, step = 24_000, 480
    samples = chords(2, rate)
    sent = b""
    encoder = AudioEncoder(format, rate)
    for number, start in enumerate(range(0, len(samples), step), 1):
        sent += encoder.push(samples[start : start + step])
        if number in (25, 50, 75):
            heard = decode(sent, rate=rate, raw=raw_format(format, rate, 1)).seconds
            assert heard > number * step / rate - 0.13


@pytest.mark.parametrize("format", FORMATS)
def test_the_cut_into_pushes_does_not_matter(format: AudioFormat) -> None:
    samples = noise(1, 22_050)
    one, many = AudioEncoder(format, 22_050), AudioEncoder(format, 22_050)
    raw = raw_format(format, 22_050, 1)
    whole = decode(b"".join(pieces(one, samples, len(samples))), rate=22_050, raw=raw).values
    parts = decode(b"".join(pieces(many, samples, 333)), rate=22_050, raw=raw).values
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-4)


def test_soundfile_reads_what_we_write() -> None:
    samples = chords(1, 24_000)
    for format in ("wav", "flac", "mp3", "opus"):
        values, rate = soundfile.read(io.BytesIO(encode(samples, format, 24_000)), dtype="float32")  # type: ignore[arg-type]
        if format in ("wav", "flac"):
            assert rate == 24_000
            np.testing.assert_allclose(values, samples, rtol=0, atol=2e-5)
        assert abs(len(values) / rate - 1) < 0.1


def test_a_whole_wav_states_its_length() -> None:
    data = encode(noise(0.5, 8_000), "wav", 8_000)
    assert int.from_bytes(data[40:44], "little") == 8_000 == len(data) - 44
    assert int.from_bytes(data[4:8], "little") == len(data) - 8


def test_loud_sound_is_clipped() -> None:
    decoded = decode(encode(np.array([2.0, -2.0, 0.5] * 100, np.float32), "wav", 16_000)).values
    assert decoded.max() > 0.999 and decoded.min() == -1.0


def test_what_cannot_be_encoded() -> None:
    with pytest.raises(AudioError, match="unknown sound format 'wma'; known: wav, pcm"):
        AudioEncoder("wma", 24_000)  # type: ignore[arg-type]
    with pytest.raises(AudioError, match="unknown sound format"):
        AudioEncoder("mp4", 24_000)  # type: ignore[arg-type]
    with pytest.raises(AudioError, match="3 channels"):
        AudioEncoder("wav", 24_000, 3)
    with pytest.raises(AudioError, match="at 12 Hz"):
        AudioEncoder("wav", 12)
    with pytest.raises(AudioError, match="2 samples to encode are not finite"):
        AudioEncoder("mp3", 24_000).push(np.array([0, np.nan, np.inf], np.float32))
    with pytest.raises(AudioError, match="do not have 2 channels"):
        AudioEncoder("wav", 24_000, 2).push(noise(0.1))
    for format in FORMATS:
        with pytest.raises(AudioError, match="no sound to encode"):
            AudioEncoder(format, 24_000).finish()
    done = AudioEncoder("wav", 24_000)
    done.push(noise(0.1))
    done.finish()
    with pytest.raises(AudioError, match="had finished"):
        done.push(noise(0.1))


def test_content_types() -> None:
    assert AudioEncoder("mp3", 24_000).content_type == "audio/mpeg"
    assert AudioEncoder("opus", 24_000).content_type == "audio/ogg"
