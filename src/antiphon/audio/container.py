"""Compressed sound in containers, decoded by PyAV to frames of float32 channels.

The input is only read through our own stream, never by name, and only listed containers are opened. Playlists and other
formats that could lead the library to further files or addresses are not listed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.samples import Floats, SourceFacts
from antiphon.dependencies import import_dependency
from antiphon.errors import AudioError

#: FFmpeg's names of the containers that may be opened.
CONTAINERS = (
    "aac", "ac3", "aiff", "amr", "ape", "asf", "au", "avi", "caf", "eac3", "flac", "flv", "loas", "matroska,webm",
    "mov,mp4,m4a,3gp,3g2,mj2", "mp3", "mpeg", "mpegts", "ogg", "rm", "tta", "voc", "w64", "wav", "wv",
)  # fmt: skip

#: Maximum damaged chunks that are skipped in a row.
MAX_DAMAGE = 1000
#: Maximum seconds for adding up packet durations (a million take some seconds), and packets between time checks.
PACKETS_SECONDS = 10.0
PACKETS_AT_ONCE = 256


class ContainerReader:
    """First sound track of a container. `frames` can be iterated once; `damaged` counts skipped chunks."""

    def __init__(self, stream: BinaryIO) -> None:
        self._av = import_dependency("av", "decoding sound other than plain WAV")
        self.damaged = 0
        try:
            options = {"format_whitelist": ",".join(CONTAINERS), "protocol_whitelist": "none"}
            self._container = self._av.open(stream, mode="r", options=options, **_metadata_errors(self._av))
        except (self._av.error.FFmpegError, ValueError) as error:
            raise AudioError(f"this is not a sound file of a known format ({_cause(error)})") from error
        tracks = self._container.streams.audio
        if not tracks:
            self._container.close()
            raise AudioError(f"the file ({self._container.format.name}) has no sound track")
        self._track = tracks[0]
        self.facts = self._facts()

    def frames(self) -> Iterator[tuple[int, Floats]]:
        """Yield the rate and the samples [channels, n] of each decoded frame."""
        in_a_row = 0
        try:
            packets = self._container.demux(self._track)
            while True:
                try:
                    packet = next(packets)
                    decoded = packet.decode()
                except StopIteration:
                    return
                except (self._av.error.EOFError, self._av.error.BlockingIOError):
                    continue
                except self._av.error.FFmpegError as error:
                    self.damaged += 1
                    in_a_row += 1
                    if in_a_row > MAX_DAMAGE:
                        raise AudioError(f"{in_a_row} damaged pieces in a row ({_cause(error)})") from error
                    continue
                for frame in decoded:
                    in_a_row = 0
                    yield frame.sample_rate, _floats(frame)
        finally:
            self._container.close()

    def is_longer_than(self, max_seconds: float) -> bool:
        """Return whether the packets' stated durations exceed `max_seconds`. Reads the input without decoding.

        Headers only state the length of one link of a chained stream. Returns False after `PACKETS_SECONDS`.
        """
        units, per_second, deadline = 0, 1.0, time.thread_time() + PACKETS_SECONDS
        seconds = 0.0
        with suppress(self._av.error.FFmpegError, ValueError):  # decoding reports damaged data
            for index, packet in enumerate(self._container.demux(self._track)):
                if index % PACKETS_AT_ONCE == 0:  # each link may have its own time base
                    seconds, units = seconds + units / per_second, 0
                    per_second = 1 / float(packet.time_base) if packet.time_base else 1e9
                    if seconds > max_seconds:
                        return True
                    if time.thread_time() > deadline:
                        return False
                units += packet.duration or 0
        return seconds + units / per_second > max_seconds

    def close(self) -> None:
        self._container.close()

    def _facts(self) -> SourceFacts:
        context = self._track.codec_context
        if context is None:
            raise AudioError("the file's sound track has a codec that cannot be decoded here")
        seconds: float | None = None
        if self._track.duration and self._track.time_base:
            seconds = float(self._track.duration * self._track.time_base)
        elif self._container.duration:
            seconds = self._container.duration / 1_000_000
        return SourceFacts(context.sample_rate or 0, context.channels or 0, context.codec.name, seconds)


_DTYPES = {"u8": np.uint8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "flt": np.float32, "dbl": np.float64}


def _floats(frame: Any) -> Floats:
    """Return a frame's samples as [channels, n] in [-1, 1]."""
    channels, count = len(frame.layout.channels), frame.samples
    dtype = np.dtype(_DTYPES[frame.format.packed.name])
    # Not `to_ndarray`, which follows pointers beyond the frame's own channels after a damaged stream changed layout.
    planes = frame.planes
    if frame.format.is_packed:
        values: NDArray[Any] = np.frombuffer(planes[0], dtype, count * channels).reshape(count, channels).T
    else:
        values = np.stack([np.frombuffer(planes[index], dtype, count) for index in range(channels)])
    match dtype.kind:
        case "f":
            return values.astype(np.float32)
        case "u":
            return (values.astype(np.float32) - 128.0) / 128.0
        case _:
            return values.astype(np.float32) * np.float32(1.0 / (1 << (8 * dtype.itemsize - 1)))


def _cause(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _metadata_errors(av: Any) -> dict[str, str]:
    """Return the option without which PyAV before version 19 fails on titles that are not UTF-8."""
    return {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
