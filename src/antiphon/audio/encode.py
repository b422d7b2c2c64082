"""Encoding of sound in chunks: bytes are returned as soon as there are samples for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from antiphon.audio import wav
from antiphon.audio.pcm import to_s16
from antiphon.audio.resample import Resampler
from antiphon.audio.samples import Floats, RawFormat
from antiphon.dependencies import import_dependency
from antiphon.errors import AudioError, MissingDependencyError

#: Formats: `pcm` is 16-bit little-endian without a header; `opus` is in Ogg, `aac` in ADTS.
AudioFormat = Literal["wav", "pcm", "pcm_f32le", "mp3", "opus", "aac", "flac"]

FORMATS: tuple[AudioFormat, ...] = get_args(AudioFormat)
CONTENT_TYPES: dict[AudioFormat, str] = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "pcm_f32le": "application/octet-stream",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}
MAX_CHANNELS = 2


@dataclass(frozen=True)
class _Codec:
    """Settings of PyAV for a format. Empty `rates` accept any rate; `bit_rate` is in bits per second per channel."""

    container: str
    encoder: str
    layout: str
    rates: tuple[int, ...] = ()
    bit_rate: int | None = None
    options: dict[str, str] = field(default_factory=dict)


_MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_CODECS: dict[str, _Codec] = {
    "mp3": _Codec("mp3", "libmp3lame", "fltp", _MPEG_RATES, 64_000, {"write_xing": "0", "id3v2_version": "0"}),
    "aac": _Codec("adts", "aac", "fltp", (*_MPEG_RATES, 64_000, 88_200, 96_000), 64_000),
    # A page holds a second by default, and no byte is returned before a page is full.
    "opus": _Codec(
        "ogg", "libopus", "flt", (8_000, 12_000, 16_000, 24_000, 48_000), 48_000, {"page_duration": "20000"}
    ),
    "flac": _Codec("flac", "flac", "s16"),
}


class AudioEncoder:
    """Encoder of samples to one file: the results of all `push` calls and then `finish`, concatenated.

    Samples are float32 [n], or [n, channels], clipped to [-1, 1]. If the codec does not accept `rate`, the sound is
    resampled to the next higher rate that it accepts: `coded_rate`.
    """

    def __init__(self, format: AudioFormat, rate: int, channels: int = 1, *, bit_rate: int | None = None) -> None:
        _check_format(format)
        if not 1 <= channels <= MAX_CHANNELS:
            raise AudioError(f"cannot encode {channels} channels; 1 to {MAX_CHANNELS} are possible")
        if not 1_000 <= rate <= 192_000:
            raise AudioError(f"cannot encode at {rate} Hz; 1000 to 192000 are possible")
        self.format = format
        self.content_type = CONTENT_TYPES[format]
        self.channels = channels
        #: Number of samples per channel so far.
        self.num_samples = 0
        codec = _CODECS.get(format)
        rates = codec.rates if codec else ()
        self.coded_rate = min((r for r in rates if r >= rate), default=max(rates)) if rates else rate
        self._resamplers = [Resampler(rate, self.coded_rate) for _ in range(channels)]
        self._sink: _PlainSink | _CodecSink
        if codec is None:
            self._sink = _PlainSink(format, self.coded_rate, channels)
        else:
            self._sink = _CodecSink(codec, self.coded_rate, channels, bit_rate)
        self._finished = False

    def push(self, samples: Floats) -> bytes:
        """Encode samples, and return the bytes that are ready."""
        if self._finished:
            raise AudioError("samples were pushed into an encoder that had finished")
        frames = self._checked(samples)
        self.num_samples += len(frames)
        resampled = [resampler.push(frames[:, index]) for index, resampler in enumerate(self._resamplers)]
        return self._sink.write(np.stack(resampled, axis=1))

    def finish(self) -> bytes:
        """Return the rest of the file. Raise `AudioError` if no samples were pushed."""
        if self._finished:
            return b""
        self._finished = True
        if not self.num_samples:
            raise AudioError(f"there is no sound to encode as {self.format} (0 samples)")
        last = np.stack([resampler.finish() for resampler in self._resamplers], axis=1)
        return (self._sink.write(last) if len(last) else b"") + self._sink.close()

    def _checked(self, samples: Floats) -> Floats:
        values = np.asarray(samples, np.float32)
        frames = values[:, None] if values.ndim == 1 else values
        if frames.ndim != 2 or frames.shape[1] != self.channels:
            raise AudioError(f"samples of shape {values.shape} do not have {self.channels} channels")
        if not np.isfinite(frames).all():
            bad = frames.size - int(np.count_nonzero(np.isfinite(frames)))
            raise AudioError(f"{bad} samples to encode are not finite numbers (NaN or infinity)")
        return frames


def encode(samples: Floats, format: AudioFormat, rate: int, channels: int = 1) -> bytes:
    """Encode a whole file. Unlike streamed ones, WAV and FLAC files state their length."""
    if format == "wav":
        encoder = AudioEncoder("pcm", rate, channels)
        data = encoder.push(samples) + encoder.finish()
        return wav.header(RawFormat("s16le", rate, channels), encoder.num_samples) + data
    encoder = AudioEncoder(format, rate, channels)
    data = encoder.push(samples) + encoder.finish()
    return _with_flac_length(data, encoder.num_samples) if format == "flac" else data


def _with_flac_length(data: bytes, num_samples: int) -> bytes:
    """Set the number of samples in FLAC's stream information, the first block: the low 36 bits of bytes 18 to 25."""
    fields = int.from_bytes(data[18:26], "big") >> 36 << 36 | num_samples
    return data[:18] + fields.to_bytes(8, "big") + data[26:]


class _PlainSink:
    """Writer of WAV as a stream of unknown length, or of samples without a header."""

    def __init__(self, format: AudioFormat, rate: int, channels: int) -> None:
        self._float = format == "pcm_f32le"
        self._head = wav.header(RawFormat("s16le", rate, channels)) if format == "wav" else b""

    def write(self, frames: Floats) -> bytes:
        head, self._head = self._head, b""
        return head + (np.clip(frames, -1.0, 1.0).astype("<f4") if self._float else to_s16(frames)).tobytes()

    def close(self) -> bytes:
        return b""


class _Buffer:
    """Output for PyAV that cannot seek, so that bytes taken from it are never changed."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class _CodecSink:
    def __init__(self, codec: _Codec, rate: int, channels: int, bit_rate: int | None) -> None:
        av = self._av = import_dependency("av", f"encoding with {codec.encoder}")
        self._codec = codec
        self._rate = rate
        self._layout = "mono" if channels == 1 else "stereo"
        self._position = 0
        self._buffer = _Buffer()
        try:
            options = codec.options | {"flush_packets": "1"}
            self._container = av.open(self._buffer, "w", format=codec.container, options=options)
            track: Any = self._container.add_stream(codec.encoder, rate=rate, layout=self._layout)
        except (av.error.FFmpegError, ValueError) as error:
            message = f"the installed PyAV cannot encode with {codec.encoder} at {rate} Hz ({error})"
            raise MissingDependencyError(message) from error
        track.format = codec.layout
        track.time_base = Fraction(1, rate)
        wanted = bit_rate or (codec.bit_rate * channels if codec.bit_rate else None)
        if wanted:
            track.bit_rate = wanted
        self._track = track

    def write(self, frames: Floats) -> bytes:
        if len(frames):
            frame = self._av.AudioFrame.from_ndarray(self._laid_out(frames), self._codec.layout, self._layout)
            frame.sample_rate = self._rate
            frame.pts = self._position
            frame.time_base = Fraction(1, self._rate)
            self._position += len(frames)
            self._encode(frame)
        return self._buffer.take()

    def close(self) -> bytes:
        self._encode(None)
        self._container.close()
        return self._buffer.take()

    def _encode(self, frame: Any) -> None:
        try:
            self._container.mux(self._track.encode(frame))
        except self._av.error.FFmpegError as error:
            raise AudioError(f"{self._codec.encoder} refused sound at {self._rate} Hz ({error})") from error

    def _laid_out(self, frames: Floats) -> Any:
        """Return samples in the encoder's type: planar [channels, n], or packed [1, n * channels]."""
        clipped = np.clip(frames, -1.0, 1.0)
        if self._codec.layout == "fltp":
            return np.ascontiguousarray(clipped.T)
        values = to_s16(clipped) if self._codec.layout == "s16" else clipped
        return np.ascontiguousarray(values).reshape(1, -1)


def _check_format(format: str) -> None:
    if format not in CONTENT_TYPES:
        raise AudioError(f"unknown sound format {format!r}; known: {', '.join(FORMATS)}")
