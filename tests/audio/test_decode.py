"""Decoding of every kind of input: against soundfile and FFmpeg's own encoders, whole and in pieces, good and bad."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import wave
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
import soxr

from antiphon.audio import wav
from antiphon.audio.container import ContainerReader
from antiphon.audio.decode import decode, decode_stream
from antiphon.audio.pcm import alaw_table, mulaw_table, to_floats
from antiphon.audio.resample import Resampler, resample
from antiphon.audio.samples import DecodeLimits, Encoding, RawFormat
from antiphon.errors import AudioError
from support.sound.sounds import Floats, chords, lag_and_ratio, noise, tone


class Pipe:
    """A stream that cannot seek and gives little at a time."""

    def __init__(self, data: bytes, step: int = 1000) -> None:
        self._stream = io.BytesIO(data)
        self._step = step

    def read(self, count: int = -1) -> bytes:
        return self._stream.read(min(count, self._step) if count >= 0 else self._step)


@cache
def encoded(
    container: str, codec: str, rate: int = 44_100, channels: int = 2, seconds: float = 2.0, second: float = 0.5
) -> bytes:
    """Chords as FFmpeg encodes them; the second channel is `second` as loud, and inverted where that is negative."""
    mono = chords(seconds, rate)
    samples = np.stack([mono, mono * second])[:channels]
    layout = "stereo" if channels == 2 else "mono"
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        track: Any = output.add_stream(codec, rate=rate, layout=layout)
        for start in range(0, len(mono), 4410):
            part = np.ascontiguousarray(samples[:, start : start + 4410])
            frame = av.AudioFrame.from_ndarray(part, format="fltp", layout=layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            output.mux(track.encode(frame))
        output.mux(track.encode(None))
    return buffer.getvalue()


def vorbis() -> bytes:
    buffer = io.BytesIO()
    mono = chords(2.0, 44_100)
    soundfile.write(buffer, np.stack([mono, mono / 2], axis=1), 44_100, format="OGG", subtype="VORBIS")
    return buffer.getvalue()


KINDS = {
    "wav": lambda: encoded("wav", "pcm_s16le"),
    "wav-24": lambda: encoded("wav", "pcm_s24le"),
    "wav-float": lambda: encoded("wav", "pcm_f32le"),
    "wav-adpcm": lambda: encoded("wav", "adpcm_ima_wav"),
    "mp3": lambda: encoded("mp3", "libmp3lame"),
    "flac": lambda: encoded("flac", "flac"),
    "ogg-opus": lambda: encoded("ogg", "libopus", 48_000),
    "ogg-vorbis": vorbis,
    "webm": lambda: encoded("webm", "libopus", 48_000),
    "m4a": lambda: encoded("ipod", "aac"),
    "aiff": lambda: encoded("aiff", "pcm_s16be"),
    "caf": lambda: encoded("caf", "alac"),
    "mulaw": lambda: encoded("wav", "pcm_mulaw", 8_000),
    "alaw": lambda: encoded("wav", "pcm_alaw", 8_000),
}
NARROW = ("mulaw", "alaw")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: str) -> None:
    data = KINDS[kind]()
    decoded = decode(data)
    rate = {"ogg-opus": 48_000, "webm": 48_000}.get(kind, 8_000 if kind in NARROW else 44_100)
    assert (decoded.source.rate, decoded.source.channels, decoded.rate) == (rate, 2, 16_000)
    assert decoded.damaged == 0
    expected = soxr.resample(chords(2.0, rate) * 0.75, rate, 16_000)
    lag, ratio = lag_and_ratio(decoded.values, expected)
    assert lag == 0
    assert ratio > 12
    assert abs(len(decoded.values) - len(expected)) < 1024
    assert decoded.source.seconds == pytest.approx(2.0, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_and_pipes_equal_the_whole(kind: str) -> None:
    data = KINDS[kind]()
    whole = decode(data).values
    with decode_stream(data, chunk_seconds=0.37) as stream:
        chunks = list(stream)
    assert {len(chunk) for chunk in chunks[:-1]} == {round(0.37 * 16_000)}
    np.testing.assert_array_equal(np.concatenate(chunks), whole)
    piped = decode(Pipe(data)).values  # type: ignore[arg-type]
    # Without its length at hand, MP3's padding at the end is not known to be padding.
    assert len(whole) <= len(piped) <= len(whole) + (600 if kind == "mp3" else 0)
    same = len(whole) - 200 if kind == "mp3" else len(whole)
    np.testing.assert_array_equal(piped[:same], whole[:same])


def test_from_a_path_and_from_the_middle_of_a_stream(tmp_path: Path) -> None:
    data = encoded("flac", "flac")
    path = tmp_path / "sound.flac"
    path.write_bytes(data)
    np.testing.assert_array_equal(decode(path).values, decode(data).values)
    stream = io.BytesIO(b"before" + data)
    stream.seek(6)
    np.testing.assert_array_equal(decode(stream).values, decode(data).values)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
def test_plain_wav_equals_soundfile(subtype: str) -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, noise(0.3), 16_000, format="WAV", subtype=subtype)
    expected, _ = soundfile.read(io.BytesIO(buffer.getvalue()), dtype="float32")
    np.testing.assert_allclose(decode(buffer.getvalue()).values, expected, rtol=0, atol=1e-7)


def test_wav_needs_no_library() -> None:
    """Plain WAV at the asked rate decodes where PyAV and soxr are not installed; other input says what to install."""
    code = """
import sys, io, struct
for name in ("av", "soxr", "soundfile"): sys.modules[name] = None
from antiphon.audio import wav
from antiphon.audio.decode import decode
from antiphon.audio.encode import AudioEncoder
from antiphon.audio.samples import RawFormat
from antiphon.errors import MissingDependencyError
sound = b"\\0\\1" * 16000
assert len(decode(wav.header(RawFormat("s16le", 16000), 16000) + sound).values) == 16000
assert AudioEncoder("wav", 24000).push(decode(sound, raw=RawFormat("s16le", 16000)).values)
for call, name in ((lambda: decode(b"fLaC" + bytes(100)), "av"), (lambda: AudioEncoder("mp3", 24000), "av"),
                   (lambda: decode(sound, raw=RawFormat("s16le", 8000)), "soxr")):
    try: call()
    except MissingDependencyError as error: assert f"`pip install {name}`" in str(error), error
    else: raise SystemExit("no error")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("encoding", ["u8", "s16le", "s16be", "s24le", "s32le", "f32le", "f64le", "mulaw", "alaw"])
def test_raw_equals_ffmpeg(encoding: Encoding) -> None:
    """Headerless sound, stereo: the values that FFmpeg's decoder of the same encoding gives."""
    data = np.random.default_rng(3).integers(0, 256, 4800, dtype=np.uint8).tobytes()
    if encoding in ("f32le", "f64le"):
        data = noise(0.01, 48_000).astype(encoding.replace("f32le", "<f4").replace("f64le", "<f8")).tobytes()
    codec = f"pcm_{encoding}"
    context: Any = av.CodecContext.create(codec, "r")
    context.sample_rate, context.layout = 16_000, "mono"
    frames = context.decode(av.Packet(data))
    values = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
    scale = {"u": 128.0, "i": float(1 << (8 * values.dtype.itemsize - 1)), "f": 1.0}[values.dtype.kind]
    expected = (values.astype(np.float64) - (128 if values.dtype.kind == "u" else 0)) / scale
    np.testing.assert_allclose(to_floats(data, encoding), expected, rtol=0, atol=1e-7)
    stereo = decode(data, raw=RawFormat(encoding, 16_000, 2)).values
    np.testing.assert_allclose(stereo, expected.reshape(-1, 2).mean(1), rtol=0, atol=1e-7)


def test_g711_tables() -> None:
    assert mulaw_table()[[0xFF, 0x7F, 0x80, 0x00]].tolist() == [0.0, 0.0, 32124 / 32768, -32124 / 32768]
    assert alaw_table()[[0xD5, 0x55, 0xAA, 0x2A]].tolist() == [8 / 32768, -8 / 32768, 32256 / 32768, -32256 / 32768]


@pytest.mark.parametrize("rates", [(44_100, 16_000), (8_000, 16_000), (24_000, 48_000), (11_025, 16_000)])
def test_resampling_in_pieces(rates: tuple[int, int]) -> None:
    samples = noise(1.3, rates[0])
    resampler = Resampler(*rates)
    source = np.random.default_rng(0)
    parts, position = [], 0
    while position < len(samples):
        step = int(source.integers(1, 3000))
        parts.append(resampler.push(samples[position : position + step]))
        position += step
    joined = np.concatenate([*parts, resampler.finish()])
    np.testing.assert_array_equal(joined, resample(samples, *rates))
    np.testing.assert_allclose(joined, soxr.resample(samples, *rates), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg-opus", "mp3"])
def test_channels_of_opposite_phase_do_not_cancel(kind: str) -> None:
    container, codec, rate = {
        "wav": ("wav", "pcm_s16le", 44_100),
        "flac": ("flac", "flac", 44_100),
        "ogg-opus": ("ogg", "libopus", 48_000),
        "mp3": ("mp3", "libmp3lame", 44_100),
    }[kind]
    decoded = decode(encoded(container, codec, rate, second=-1.0))
    lag, ratio = lag_and_ratio(decoded.values, soxr.resample(chords(2.0, rate), rate, 16_000))
    assert lag == 0 and ratio > 12


def test_many_channels_are_averaged() -> None:
    channels = [tone(0.2, 200 * (n + 1)) for n in range(6)]
    data = np.stack(channels, axis=1).astype("<f4").tobytes()
    values = decode(data, raw=RawFormat("f32le", 16_000, 6)).values
    np.testing.assert_allclose(values, np.mean(channels, axis=0), rtol=0, atol=1e-6)


def wav_bytes(samples: Floats, rate: int = 16_000) -> bytes:
    return wav.header(RawFormat("f32le", rate), len(samples)) + samples.astype("<f4").tobytes()


BAD = {
    "nothing": (b"", r"empty \(0 bytes\)"),
    "text": (b"hello world " * 100, "not a sound file of a known format"),
    "zeros": (bytes(5000), "not a sound file of a known format"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "not a sound file of a known format"),
    "playlist": (b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/hosts\n#EXT-X-ENDLIST\n", "not a sound"),
    "file list": (b"ffconcat version 1.0\nfile /etc/hosts\n", "not a sound file"),
    "session": (b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=-\nm=audio 5004 RTP/AVP 0\n", "not a sound file"),
    "wav without format": (b"RIFF\0\0\0\0WAVE", "no format chunk"),
    "wav without samples": (wav.header(RawFormat("s16le", 16_000), 0), "has no samples"),
    "wav cut in its header": (wav.header(RawFormat("s16le", 16_000), 9)[:30], "bytes short inside its header"),
    "wav of no channels": (wav.header(RawFormat("s16le", 16_000, 0), 9) + bytes(99), "0 channels"),
    "wav of many channels": (wav.header(RawFormat("s16le", 16_000, 999), 9) + bytes(9999), "999 channels; 1 to 32"),
    "wav at 1 Hz": (wav.header(RawFormat("s16le", 1), 9) + bytes(99), "rate of 1 Hz; 2000 to 768000"),
    "not a number": (wav_bytes(np.array([0, np.nan, 1, np.inf], np.float32)), "2 samples after 0.0 s are not finite"),
    "a huge chunk": (b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\x7f", "bytes before its samples; at most"),
    "m4a cut short": (encoded("ipod", "aac")[:3000], "not a sound file|no samples"),
    "flac of its header": (encoded("flac", "flac")[:60], "no samples|not a sound file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(AudioError, match=message):
        decode(data)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"cannot read .*none\.wav: No such file"):
        decode(tmp_path / "none.wav")
    with pytest.raises(AudioError, match="cannot read"):
        decode(tmp_path)


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "ogg-opus", "webm"])
def test_a_file_cut_short_gives_what_is_there(kind: str) -> None:
    data = encoded("ogg", "libopus", 48_000, 2, 9.0) if kind == "ogg-opus" else KINDS[kind]()  # pages of a second
    whole, part = decode(data).values, decode(data[: len(data) // 2]).values
    assert 0.3 < len(part) / len(whole) < 0.7
    np.testing.assert_allclose(part[:8000], whole[:8000], rtol=0, atol=1e-6)


def test_streamed_wav_headers() -> None:
    samples = np.arange(1000, dtype="<i2").tobytes()
    for size in (0, 0xFFFFFFFF, 10**6):
        head = wav.header(RawFormat("s16le", 16_000))[:40] + struct.pack("<I", size)
        assert len(decode(head + samples).values) == 1000
    assert len(decode(wav.header(RawFormat("s16le", 16_000), 10) + samples).values) == 10  # what follows is not sound
    assert len(decode(wav.header(RawFormat("s16le", 16_000)) + samples + b"x").values) == 1000
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setparams((2, 2, 16_000, 0, "NONE", ""))
        out.writeframes(samples)
    assert len(decode(buffer.getvalue()).values) == 500


LIMITS = {
    "bytes": (DecodeLimits(max_bytes=5000), r"\d+ bytes of sound came in; at most 5000"),
    "seconds": (DecodeLimits(max_seconds=1.5), "2 s long by its header; at most 2 s|longer than the 2 s"),
    "ratio": (DecodeLimits(max_ratio=1.1, ratio_free_seconds=0.5), r"a ratio of \d+, where at most 1 is taken"),
    "channels": (DecodeLimits(max_channels=1), "2 channels; 1 to 1"),
    "rate": (DecodeLimits(max_rate=40_000), "44100 Hz; 2000 to 40000"),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("piped", [False, True])
def test_limits(limit: str, piped: bool) -> None:
    limits, message = LIMITS[limit]
    data = encoded("mp3", "libmp3lame")
    with pytest.raises(AudioError, match=message):
        decode(Pipe(data) if piped else data, limits=limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["ogg-opus", "ogg-vorbis", "mp3", "adts"])
def test_a_chain_that_is_too_long_is_rejected_before_it_is_decoded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers state the length of one link; the packets of all are added up."""
    link = encoded("adts", "aac") if kind == "adts" else KINDS[kind]()
    limits = DecodeLimits(max_seconds=20)
    assert decode(link * 9, limits=limits).seconds == pytest.approx(18, abs=1)
    monkeypatch.setattr(ContainerReader, "frames", None)
    with pytest.raises(AudioError, match=r"is longer than the 20 s that are taken|long by its header"):
        decode(link * 12, limits=limits)


def test_damaged_input_never_brings_the_process_down() -> None:
    """Bytes changed at random: an error of ours or a sound, whatever the codec. In a process of its own."""
    code = """
import pickle, sys, numpy as np
from antiphon.audio.decode import decode
from antiphon.errors import AudioError
source = np.random.default_rng(5)
for data in pickle.load(sys.stdin.buffer):
    for _ in range(12):
        bad = bytearray(data)
        for _ in range(int(source.integers(1, 200))):
            bad[int(source.integers(0, len(bad)))] = int(source.integers(0, 256))
        try: assert np.isfinite(decode(bytes(bad)).values).all()
        except AudioError: pass
"""
    kinds = ("wav", "mp3", "flac", "ogg-opus", "webm", "m4a")
    originals = [KINDS[kind]() for kind in kinds] + [encoded("adts", "aac")]
    result = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(originals), capture_output=True)
    assert result.returncode == 0, result.stderr.decode()


def test_a_bomb_of_silence() -> None:
    """Silence compresses without end: hours of it in kilobytes are cut off by the ratio, early."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(1200 * 8000, np.int16), 8_000, format="FLAC", subtype="PCM_16")
    data = buffer.getvalue()
    assert decode(data).seconds == 1200
    with pytest.raises(AudioError, match=r"bytes have become \d+ s of sound: a ratio of"):
        decode(data, limits=DecodeLimits(max_ratio=100))


class Endless:
    """So many seconds of 2 kHz µ-law, made as they are read."""

    def __init__(self, seconds: int) -> None:
        self._left = seconds * 2000
        self._head = wav.header(RawFormat("mulaw", 2000))

    def read(self, count: int = -1) -> bytes:
        if self._head:
            data, self._head = self._head[:count], self._head[count:]
            return data
        count = min(count, self._left)
        self._left -= count
        return b"\x55" * count


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_ten_hours_in_bounded_memory() -> None:
    limits = DecodeLimits(max_seconds=11 * 3600)
    seconds, before, highest = 0.0, resident_bytes(), 0
    with decode_stream(Endless(36_000), rate=2_000, limits=limits, chunk_seconds=60) as stream:  # type: ignore[arg-type]
        for chunk in stream:
            seconds += len(chunk) / 2_000
            highest = max(highest, resident_bytes())
    assert seconds == 36_000
    assert highest - before < 64 << 20
    with pytest.raises(AudioError, match="longer than the 14400 s"):
        for _ in decode_stream(Endless(36_000), rate=2_000):  # type: ignore[arg-type]
            pass


@pytest.mark.slow
def test_long_compressed_sound_in_bounded_memory(soak: bool) -> None:
    """AAC frames of one minute over and over, resampled; ten hours of them in the soak."""
    minutes = 600 if soak else 15
    data = encoded("adts", "aac", 8_000, 1, 60.0) * minutes
    before, highest, seconds = resident_bytes(), 0, 0.0
    with decode_stream(data, limits=DecodeLimits(max_seconds=11 * 3600)) as stream:
        for chunk in stream:
            seconds += len(chunk) / 16_000
            highest = max(highest, resident_bytes())
    assert seconds == pytest.approx(60 * minutes, rel=0.01)
    assert highest - before < 64 << 20
