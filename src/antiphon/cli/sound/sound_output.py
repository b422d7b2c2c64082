"""Destinations of synthesized sound: a file, standard output, or a player program. This module needs no torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from antiphon.cli.terminal.files import check_writable
from antiphon.counted import counted
from antiphon.errors import AudioError, InvalidRequestError, UsageError

if TYPE_CHECKING:
    from antiphon.audio.samples import Floats

FORMATS = ("wav", "mp3", "opus", "aac", "flac", "pcm")
SUFFIXES = {f".{format_}": format_ for format_ in FORMATS} | {".ogg": "opus"}
#: Commands that play 16-bit mono samples from standard input; {} is the sample rate.
PLAYERS = (
    ("ffplay", "-loglevel", "error", "-nodisp", "-autoexit", "-f", "s16le", "-ar", "{}", "-ch_layout", "mono", "-"),
    ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{}", "-"),
    ("pacat", "--format=s16le", "--channels=1", "--rate={}"),
    ("play", "-q", "-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", "{}", "-"),
)
#: Maximum number of 16-bit samples whose size fits a WAV header; longer files keep an unknown length.
MAX_WAV_SAMPLES = (0xFFFFFFFF - 44) // 2
#: Message of ffplay when it cannot open a sound device; its exit status is then 0.
NO_DEVICE = "audio open failed"


def sound_format(output: str | None, format_: str | None) -> str:
    """Return the sound format from `--format`, or else from the file's suffix."""
    if format_ is not None:
        if format_ not in FORMATS:
            raise UsageError(f"--format is {format_!r}; choose one of: {', '.join(FORMATS)}")
        return format_
    if output in (None, "-"):
        return "wav"
    suffix = Path(str(output)).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of {output}; end it in {', '.join(SUFFIXES)}, or give --format")
    return SUFFIXES[suffix]


def check_destination(output: str | None, play: bool) -> None:
    """Raise if the destination cannot work, before any model is loaded."""
    if play or output is None:
        _player()
    if output == "-" and sys.stdout.isatty():
        raise UsageError(
            "standard output is a terminal; "
            "install one (`apt install alsa-utils`, `brew install sox`), or write a file with -o speech.wav"
        )
    if output not in (None, "-"):
        check_writable(Path(str(output)))


class SinkGroup:
    """Destinations opened at the first sound, so that a failed request or an empty text leaves no file."""

    def __init__(self) -> None:
        #: Destinations with `close`, which completes them, and `abandon`, which releases them after a failure and never
        #: raises.
        self._sinks: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Complete every destination. After a failure, only release them, so that the first error is reported."""
        while self._sinks:
            sink = self._sinks.pop(0)
            if failure is not None:
                sink.abandon()
                continue
            try:
                sink.close()
            except BaseException:
                sink.abandon()
                for other in self._sinks:
                    other.abandon()
                raise


class OutputFile:
    """Output file, or standard output for '-'. Errors name the file."""

    def __init__(self, output: str) -> None:
        self._name = output
        self._stream: IO[bytes] = sys.stdout.buffer
        if output != "-":
            self._try(self._open)

    def _open(self) -> None:
        self._stream = open(self._name, "wb")  # noqa: SIM115  (closed by `close`)

    def write(self, data: bytes) -> None:
        self._try(lambda: self._stream.write(data))
        self._try(self._stream.flush)

    def rewrite_start(self, data: bytes) -> None:
        """Replace the first bytes, if the output is a seekable file."""
        if self._name != "-" and self._stream.seekable():
            self._try(lambda: self._stream.seek(0))
            self.write(data)

    def close(self) -> None:
        if self._name != "-":
            self._try(self._stream.close)

    def abandon(self) -> None:
        with suppress(OSError, InvalidRequestError):
            self.close()

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            if self._name == "-":
                raise  # `main` reports it
            raise InvalidRequestError(f"cannot write {self._name}: {error.strerror or error}") from error


class EncodedFile:
    """File of encoded sound; a WAV file's header gets its length on `close`."""

    def __init__(self, output: str, format_: str, rate: int) -> None:
        from antiphon.audio.encode import AudioEncoder

        self._encoder = AudioEncoder(format_, rate)  # type: ignore[arg-type]
        self._file = OutputFile(output)
        self._rate = rate
        self._is_wav = format_ == "wav"
        self._num_samples = 0

    def write(self, samples: Floats) -> None:
        self._num_samples += len(samples)
        self._file.write(self._encoder.push(samples))

    def close(self) -> None:
        from antiphon.audio.samples import RawFormat
        from antiphon.audio.wav import header

        self._file.write(self._encoder.finish())
        if self._is_wav and self._num_samples <= MAX_WAV_SAMPLES:
            self._file.rewrite_start(header(RawFormat("s16le", self._rate, 1), self._num_samples))
        self._file.close()

    def abandon(self) -> None:
        self._file.abandon()


class Player:
    """Program that plays samples. If it fails, its last error line is reported."""

    def __init__(self, rate: int) -> None:
        command = [part.format(rate) for part in _player()]
        self._name = command[0]
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (closed when the program has ended)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._complaints
        )

    def write(self, samples: Floats) -> None:
        from antiphon.audio.pcm import to_s16

        self.write_bytes(to_s16(samples).tobytes())

    def write_bytes(self, data: bytes) -> None:
        """Play 16-bit little-endian samples."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def close(self) -> None:
        """Wait until everything has been played; raise AudioError if the program failed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            raise self._failure() from None
        if self._process.wait() or NO_DEVICE in self._said():
            raise self._failure()
        self._complaints.close()

    def abandon(self) -> None:
        self._process.terminate()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        self._complaints.close()

    def _said(self) -> str:
        if self._complaints.closed:
            return ""
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")

    def _failure(self) -> AudioError:
        status = self._process.wait()
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        cause = lines[-1] if lines else f"exit status {status}"
        return AudioError(
            f"{self._name} cannot play the sound ({cause}); is there a sound card? To write a file: -o speech.wav"
        )


class Sinks(SinkGroup):
    """Destinations of samples: an encoded file, a player, or both."""

    def __init__(self, output: str | None, format_: str, play: bool) -> None:
        super().__init__()
        self._output = output
        self._format = format_
        self._play = play

    def write(self, samples: Floats, rate: int) -> None:
        if not self._sinks:
            if self._output is not None:
                self._sinks.append(EncodedFile(self._output, self._format, rate))
            if self._play:
                self._sinks.append(Player(rate))
        for sink in self._sinks:
            sink.write(samples)


def _player() -> tuple[str, ...]:
    """Return the command of the first installed program that plays sound."""
    found = next((player for player in PLAYERS if shutil.which(player[0])), None)
    if found is None:
        names = ", ".join(player[0] for player in PLAYERS)
        raise AudioError(
            f"no program that plays sound was found (looked for {names}): install one (`apt install alsa-utils`, "
            "`brew install sox`), or write a file with -o speech.wav"
        )
    return found


def unreadable_note(count: int, runs: Sequence[str]) -> str:
    """Return the end of a report on speech that lists unreadable characters, or an empty string."""
    if not count:
        return ""
    return f"; {counted(count, 'character')} could not be read: {', '.join(runs[:8])}{', ...' if len(runs) > 8 else ''}"


def voice_line(name: str, language: str, gender: str, aliases: Sequence[str]) -> str:
    also = f"also {', '.join(aliases)}" if aliases else ""
    return f"{name:16} {language:6} {gender:8}{also}".rstrip()
