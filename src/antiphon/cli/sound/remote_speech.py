"""`antiphon speak` with a running server: its sound goes to a file, a pipe or a player as it arrives."""

from __future__ import annotations

import struct
import sys
import time
from typing import Any
from urllib.parse import quote, unquote

import typer

from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client, ServerError, ServerResponse
from antiphon.cli.remote.given import Given
from antiphon.cli.sound.sound_output import OutputFile, Player, SinkGroup, unreadable_note, voice_line
from antiphon.errors import UsageError

UNREADABLE_HEADERS = ("x-antiphon-unreadable-characters", "x-antiphon-unreadable")
MAX_HEADER_BYTES = 1 << 16
MAX_WAV_BYTES = 0xFFFFFFFF


def speak_remotely(
    context: typer.Context, server: ServerAddress, text: str, format_: str, pronunciations: dict[str, str]
) -> None:
    given = Given.of(context)
    client, values = Client(server), given.every
    output: str | None = values["output"]
    plays = values["play"] or output is None
    if plays and output is not None and format_ != "wav":
        raise UsageError(f"--play with --output needs a WAV file here, since a server sends one format; not {format_}")
    body: dict[str, Any] = {
        "model": values["model"],
        "input": text,
        "response_format": format_ if output is not None else "wav",
        **given.select(("voice", "speed", "language")),
    }
    if pronunciations:
        body["pronunciations"] = pronunciations
    started = time.perf_counter()
    with (
        client.post("/v1/audio/speech", body) as response,
        _ReceivedSound(output, plays, body["response_format"] == "wav") as sound,
    ):
        _check_type(server, response)
        first = 0.0
        for data in response:
            first = first or time.perf_counter() - started
            sound.write(data)
        sound.write_size()
        skipped = _unreadable(response)
    seconds = time.perf_counter() - started
    if not sound.num_bytes:
        raise ServerError(f"{server.url} sent no sound")
    print(f"{sound.amount()} in {seconds:.1f} s, first sound after {first * 1e3:.0f} ms{skipped}", file=sys.stderr)


def _unreadable(response: ServerResponse) -> str:
    count, runs = (response.header(name) or "" for name in UNREADABLE_HEADERS)
    return unreadable_note(int(count), [unquote(run) for run in runs.split(",")]) if count.isdecimal() else ""


def _check_type(server: ServerAddress, response: ServerResponse) -> None:
    kind = response.content_type
    if kind.startswith("text/") or kind in ("application/json", "text/event-stream"):
        raise ServerError(f"{server.url} answered with {kind}, not with sound: it does not serve /v1/audio/speech")


def print_voices_remotely(server: ServerAddress, model: str) -> None:
    client = Client(server)
    with client.get(f"/v1/audio/voices?model={quote(model, safe='')}") as response:
        content = response.json()
    voices = content.get("data") if isinstance(content, dict) else None
    if not isinstance(voices, list):
        raise ServerError(f"{client.address.url} does not list voices as Antiphon does")
    for voice in voices:
        if voice.get("same_as"):
            continue  # an alias of a listed voice
        name, language, gender = (str(voice.get(key) or "") for key in ("name", "language", "gender"))
        print(voice_line(name, language, gender, voice.get("aliases") or ()))


class WavStart:
    """Parser of a WAV stream's header, which may arrive in pieces."""

    def __init__(self) -> None:
        self.header = b""
        self.rate = self.channels = self.bits = 0
        self.is_complete = False

    def push(self, data: bytes) -> bytes:
        """Take further bytes; return those that belong to the samples."""
        if self.is_complete:
            return data
        self.header += data
        position = 12
        if len(self.header) >= position and (self.header[:4], self.header[8:12]) != (b"RIFF", b"WAVE"):
            raise ServerError("the server sent sound that is not a WAV stream")
        while len(self.header) >= position + 8:
            name, size = struct.unpack_from("<4sI", self.header, position)
            position += 8
            if name == b"data":
                samples = self.header[position:]
                self.header, self.is_complete = self.header[:position], True
                return samples
            if name == b"fmt " and len(self.header) >= position + 16:
                self.channels, self.rate = struct.unpack_from("<HI", self.header, position + 2)
                self.bits = struct.unpack_from("<H", self.header, position + 14)[0]
            position += size + size % 2
        if len(self.header) > MAX_HEADER_BYTES:
            raise ServerError("the server sent sound that is not a WAV stream")
        return b""

    def with_size(self, num_bytes: int) -> bytes:
        """Return the header with the number of sample bytes, which a stream's own header does not know."""
        riff = struct.pack("<I", len(self.header) - 8 + num_bytes)
        return self.header[:4] + riff + self.header[8:-4] + struct.pack("<I", num_bytes)


class _ReceivedSound(SinkGroup):
    """Destinations of a sound file's bytes as they arrive: a file, a player, or both."""

    def __init__(self, output: str | None, plays: bool, is_wav: bool) -> None:
        super().__init__()
        self._output = output
        self._plays = plays
        self._file: OutputFile | None = None
        self._player: Player | None = None
        self._wav = WavStart() if is_wav else None
        self._num_sample_bytes = 0
        self.num_bytes = 0

    def write(self, data: bytes) -> None:
        if self._file is None and self._output is not None:
            self._file = OutputFile(self._output)
            self._sinks.append(self._file)
        self.num_bytes += len(data)
        if self._file is not None:
            self._file.write(data)
        if self._wav is not None:
            samples = self._wav.push(data)
            self._num_sample_bytes += len(samples)
            if self._plays and samples:
                self._play(self._wav, samples)

    def _play(self, wav: WavStart, samples: bytes) -> None:
        if (wav.channels, wav.bits) != (1, 16):
            raise ServerError(f"cannot play sound of {wav.channels} channels and {wav.bits} bits; write it with -o")
        if self._player is None:
            self._player = Player(wav.rate)
            self._sinks.append(self._player)
        self._player.write_bytes(samples)

    def write_size(self) -> None:
        """Write the number of samples into the header of a complete WAV file."""
        wav = self._wav
        if self._file is not None and wav is not None and wav.is_complete and self.num_bytes <= MAX_WAV_BYTES:
            self._file.rewrite_start(wav.with_size(self._num_sample_bytes))

    def amount(self) -> str:
        wav = self._wav
        if wav is None or not (wav.rate and wav.channels and wav.bits):
            return f"{self.num_bytes:,} bytes of sound"
        return f"{self._num_sample_bytes / (wav.rate * wav.channels * wav.bits // 8):.1f} s of speech"
