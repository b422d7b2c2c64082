"""Decoding of any sound to mono float32 at one rate, whole or in bounded memory, within limits."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from antiphon.audio import wav
from antiphon.audio.container import ContainerReader
from antiphon.audio.downmix import Downmix
from antiphon.audio.pcm import SAMPLE_BYTES, check_raw, to_floats
from antiphon.audio.resample import Resampler
from antiphon.audio.samples import SPEECH_RATE, DecodeLimits, Floats, RawFormat, Samples, SourceFacts
from antiphon.errors import AudioError

AudioSource = Path | bytes | BinaryIO

_READ_BYTES = 1 << 18
_PEEK_BYTES = 12
_SPOOL_BYTES = 16 << 20  # larger spooled inputs go to disk
#: Factor by which packets may exceed the limit, since some of their sound is padding: decoding then decides.
PACKETS_TOLERANCE = 1.01
_BLOCK_SECONDS = 1.0  # sound collected before it is mixed down and resampled


def decode(
    source: AudioSource,
    *,
    rate: int = SPEECH_RATE,
    limits: DecodeLimits | None = None,
    raw: RawFormat | None = None,
) -> Samples:
    """Decode a whole recording. `raw` describes bytes without a header.

    Channels are averaged, opposite ones after inversion. A truncated file is decoded up to its end. A file without
    sound, with values that are not finite, or beyond a limit raises an `AudioError`.
    """
    with decode_stream(source, rate=rate, limits=limits, raw=raw) as stream:
        chunks = list(stream)
        values = np.concatenate(chunks) if len(chunks) > 1 else chunks[0]
        return Samples(values, rate, stream.source, stream.damaged)


def decode_stream(
    source: AudioSource,
    *,
    rate: int = SPEECH_RATE,
    chunk_seconds: float = 30.0,
    limits: DecodeLimits | None = None,
    raw: RawFormat | None = None,
) -> DecodeStream:
    """Decode a recording in chunks of exactly `chunk_seconds` (the last may be shorter), holding only a few in memory.

    The concatenated chunks equal `decode`. Errors come from this call or from the iteration.
    """
    return DecodeStream(source, rate, max(1, round(chunk_seconds * rate)), limits or DecodeLimits(), raw)


class DecodeStream:
    """Iterator of float32 chunks at `rate`, with the facts of the source. Leaving the context closes it."""

    def __init__(self, source: AudioSource, rate: int, chunk: int, limits: DecodeLimits, raw: RawFormat | None) -> None:
        if rate <= 0:
            raise AudioError(f"cannot decode to a rate of {rate} Hz")
        self.rate = rate
        self.limits = limits
        #: Number of samples returned so far, at `rate`.
        self.num_samples = 0
        self._chunk = chunk
        self._reader: _PlainReader | ContainerReader
        self._closing = ExitStack()
        try:
            self._input = _CountedInput(self._open(source), limits.max_bytes)
            self._reader = self._choose(raw)
            self.source: SourceFacts = self._reader.facts
            self._check_source()
        except BaseException:
            self._closing.close()
            raise
        self._chunks = self._make_chunks()

    def __iter__(self) -> Iterator[Floats]:
        return self

    def __next__(self) -> Floats:
        return next(self._chunks)

    def __enter__(self) -> DecodeStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def damaged(self) -> int:
        """Number of input chunks so far that could not be decoded."""
        return self._reader.damaged

    def close(self) -> None:
        self._chunks.close()
        self._closing.close()

    def _open(self, source: AudioSource) -> BinaryIO:
        if isinstance(source, bytes | bytearray | memoryview):
            return io.BytesIO(source)
        if not isinstance(source, Path):
            return source
        try:
            return self._closing.enter_context(source.open("rb"))
        except OSError as error:
            raise AudioError(f"cannot read {source}: {error.strerror or error}") from error

    def _choose(self, raw: RawFormat | None) -> _PlainReader | ContainerReader:
        if raw is not None:
            check_raw(raw)
            self._input.release()
            return _PlainReader(self._input, raw, None, raw.encoding)
        start = self._input.peek(_PEEK_BYTES)
        if not start:
            raise AudioError("the sound is empty (0 bytes)")
        if wav.is_wav(start):
            header = wav.read_header(cast("BinaryIO", self._input))
            if header is not None:
                self._input.release()
                return _PlainReader(self._input, header.raw, header.data_bytes, f"pcm_{header.raw.encoding}")
            self._input.rewind()
        if not self._input.seekable() and _needs_seeking(start):
            self._spool()
        self._input.release()
        self._check_packets()
        reader = ContainerReader(cast("BinaryIO", self._input))
        self._closing.callback(reader.close)
        return reader

    def _spool(self) -> None:
        """Copy an input that must seek but cannot into a temporary file."""
        spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 (closed with this stream)
        self._closing.enter_context(spool)
        while data := self._input.read(_READ_BYTES):
            spool.write(data)
            self._input.release()
        spool.seek(0)
        self._input = _CountedInput(cast("BinaryIO", spool), self.limits.max_bytes)

    def _check_packets(self) -> None:
        """Reject an input that is too long before decoding, if it can be read twice."""
        size, limits = self._input.size, self.limits
        if size is None or size * limits.max_ratio / 4 / self.rate <= limits.max_seconds:
            return
        with closing(ContainerReader(cast("BinaryIO", self._input))) as reader:
            if reader.is_longer_than(limits.max_seconds * PACKETS_TOLERANCE):
                raise AudioError(f"the sound is longer than the {limits.max_seconds:.0f} s that are taken")
        self._input.rewind()

    def _check_source(self) -> None:
        facts, limits = self.source, self.limits
        _check_layout(facts.rate, facts.channels, limits)
        if facts.seconds is not None and facts.seconds > limits.max_seconds:
            raise AudioError(
                f"the sound is {facts.seconds:.0f} s long by its header; at most {limits.max_seconds:.0f} s are taken"
            )

    def _make_chunks(self) -> Generator[Floats, None, None]:
        pieces: list[Floats] = []
        held = 0
        for block in self._resampled():
            self.num_samples += len(block)
            self._check_length()
            pieces.append(block)
            held += len(block)
            if held >= self._chunk:
                joined = np.concatenate(pieces)
                whole = held - held % self._chunk
                for start in range(0, whole, self._chunk):
                    yield joined[start : start + self._chunk]
                pieces, held = [joined[whole:].copy()], held - whole
        if held:
            yield np.concatenate(pieces)
        if not self.num_samples:
            told = f", {self.damaged} damaged pieces" if self.damaged else ""
            raise AudioError(f"the sound has no samples ({self.source.codec}, {self._input.num_bytes} bytes{told})")

    def _check_length(self) -> None:
        seconds, limits = self.num_samples / self.rate, self.limits
        if seconds > limits.max_seconds:
            raise AudioError(f"the sound is longer than the {limits.max_seconds:.0f} s that are taken")
        ratio = self.num_samples * 4 / max(1, self._input.num_bytes)
        if seconds > limits.ratio_free_seconds and ratio > limits.max_ratio:
            raise AudioError(
                f"{self._input.num_bytes} bytes have become {seconds:.0f} s of sound: a ratio of {ratio:.0f}, "
                f"where at most {limits.max_ratio:.0f} is taken"
            )

    def _resampled(self) -> Iterator[Floats]:
        resampler: Resampler | None = None
        for source_rate, block in _blocks(self._reader, self.limits):
            if resampler is None or resampler.source_rate != source_rate:
                if resampler is not None:
                    yield resampler.finish()
                resampler = Resampler(source_rate, self.rate)
            yield resampler.push(block)
        if resampler is not None:
            yield resampler.finish()


def _needs_seeking(start: bytes) -> bool:
    """Return whether a container's index may be at its end: MP4 and relatives, CAF, WAVE of a compressed codec."""
    return start[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip") or start[:4] in (b"caff", b"RIFF")


def _blocks(reader: _PlainReader | ContainerReader, limits: DecodeLimits) -> Iterator[tuple[int, Floats]]:
    """Yield the rate and mono samples of blocks of about a second, checked to be finite."""
    gathered: list[Floats] = []
    held, position, shape = 0, 0.0, (0, 0)
    mix: Downmix | None = None
    for rate, frame in reader.frames():
        if (rate, len(frame)) != shape or held >= rate * _BLOCK_SECONDS:
            if mix is not None:
                is_changed = (rate, len(frame)) != shape
                yield shape[0], _mono(mix, gathered, position, is_last=is_changed)
                position += held / shape[0]
            if (rate, len(frame)) != shape:
                _check_layout(rate, len(frame), limits)
                mix = Downmix(len(frame), rate)
            gathered, held, shape = [], 0, (rate, len(frame))
        gathered.append(frame)
        held += frame.shape[1]
    if mix is not None:
        yield shape[0], _mono(mix, gathered, position, is_last=True)


def _mono(mix: Downmix, frames: list[Floats], position: float, *, is_last: bool) -> Floats:
    joined = np.concatenate(frames, axis=1) if len(frames) > 1 else frames[0]
    mono = mix.push(joined)
    if is_last:
        mono = np.concatenate([mono, mix.finish()])
    finite = np.isfinite(mono)
    if not finite.all():
        bad = int(len(mono) - np.count_nonzero(finite))
        raise AudioError(f"{bad} samples after {position:.1f} s are not finite numbers (NaN or infinity)")
    return mono


def _check_layout(rate: int, channels: int, limits: DecodeLimits) -> None:
    if not limits.min_rate <= rate <= limits.max_rate:
        raise AudioError(f"the sound has a rate of {rate} Hz; {limits.min_rate} to {limits.max_rate} are taken")
    if not 1 <= channels <= limits.max_channels:
        raise AudioError(f"the sound has {channels} channels; 1 to {limits.max_channels} are taken")


class _PlainReader:
    """Reader of plain interleaved samples, up to `data_bytes` or the end. An incomplete last sample is discarded."""

    damaged = 0

    def __init__(self, stream: _CountedInput, raw: RawFormat, data_bytes: int | None, codec: str) -> None:
        self._stream = stream
        self._raw = raw
        self._left = data_bytes
        frame = max(1, raw.channels) * SAMPLE_BYTES[raw.encoding]
        seconds = None if data_bytes is None or raw.rate <= 0 else data_bytes / frame / raw.rate
        # If the header claims more than the file has, the length is unknown.
        size = stream.size
        if seconds is not None and size is not None and data_bytes is not None and data_bytes > size:
            seconds = None
        self.facts = SourceFacts(raw.rate, raw.channels, codec, seconds)

    def frames(self) -> Iterator[tuple[int, Floats]]:
        raw = self._raw
        width = raw.channels * SAMPLE_BYTES[raw.encoding]
        step = max(width, _READ_BYTES - _READ_BYTES % width)
        rest = b""
        while self._left is None or self._left > 0:
            data = self._stream.read(step if self._left is None else min(step, self._left))
            if not data:
                break
            if self._left is not None:
                self._left -= len(data)
            data = rest + data if rest else data
            whole = len(data) - len(data) % width
            rest = data[whole:]
            if whole:
                samples = to_floats(memoryview(data)[:whole], raw.encoding)
                yield raw.rate, samples.reshape(-1, raw.channels).T


class _CountedInput:
    """Stream that counts the bytes read, rejects more than the limit, and can be rewound to its start.

    For a source that cannot seek, read bytes are kept for rewinding until `release`.
    """

    def __init__(self, stream: BinaryIO, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._seekable = bool(getattr(stream, "seekable", lambda: False)())
        self._origin = stream.tell() if self._seekable else 0
        self._replay = b""
        self._kept: bytearray | None = None if self._seekable else bytearray()
        self.size: int | None = None
        if self._seekable:
            self.size = stream.seek(0, io.SEEK_END) - self._origin
            stream.seek(self._origin)
            self._check(self.size)
        self._count = 0

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the input, or of those read so far if its size is unknown."""
        return self._count if self.size is None else self.size

    def peek(self, count: int) -> bytes:
        """Return the first bytes without consuming them."""
        data = b""
        while len(data) < count:
            piece = self.read(count - len(data))
            if not piece:
                break
            data += piece
        self.rewind()
        return data

    def rewind(self) -> None:
        if self._kept is None:
            self._stream.seek(self._origin)
        else:
            self._replay = bytes(self._kept) + self._replay
            self._kept.clear()
        self._count = 0

    def release(self) -> None:
        """Stop keeping read bytes for `rewind`."""
        self._kept = None

    def read(self, count: int = -1) -> bytes:
        if count < 0:
            count = _READ_BYTES
        if self._replay:
            data, self._replay = self._replay[:count], self._replay[count:]
        else:
            data = self._stream.read(count) or b""
        if self._kept is not None:
            self._kept += data
        self._count += len(data)
        if self.size is None:
            self._check(self._count)
        return data

    def seekable(self) -> bool:
        return self._seekable

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset + self._origin if whence == io.SEEK_SET else offset, whence) - self._origin

    def tell(self) -> int:
        return self._stream.tell() - self._origin

    def _check(self, count: int) -> None:
        if count > self._max_bytes:
            raise AudioError(f"{count} bytes of sound came in; at most {self._max_bytes} are taken")
