"""`antiphon speak`: text to speech, into a file, to a pipe, or out loud."""

from __future__ import annotations

import shutil
import subprocess
import sys
import wave
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Protocol

import typer

from antiphon.cli import options
from antiphon.errors import AudioError, InvalidRequestError

if TYPE_CHECKING:
    from antiphon.audio.samples import Floats
    from antiphon.runtime.speech import SpeechStats

DEFAULT_MODEL = "kokoro-82m"
FORMATS = ("wav", "mp3", "opus", "aac", "flac", "pcm")
SUFFIXES = {f".{format_}": format_ for format_ in FORMATS} | {".ogg": "opus"}
#: Programs that play 16-bit mono samples from standard input; {} is the rate.
PLAYERS = (
    ("ffplay", "-loglevel", "quiet", "-nodisp", "-autoexit", "-f", "s16le", "-ar", "{}", "-ch_layout", "mono", "-"),
    ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{}", "-"),
    ("pacat", "--format=s16le", "--channels=1", "--rate={}"),
    ("play", "-q", "-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", "{}", "-"),
)


def speak(
    text: Annotated[
        str | None, typer.Argument(help="What to say; standard input if left out or '-'.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read this file.", show_default=False)] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Sound file; '-' is standard output.", show_default=False)
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="Catalog name, or file of a model that speaks.")
    ] = DEFAULT_MODEL,
    voice: Annotated[
        str | None, typer.Option("--voice", help="Name, or mixture: af_bella:0.7+af_sky:0.3.", show_default=False)
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="From 0.25 to 4.")] = 1.0,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            help="en-us or en-gb; es, fr, hi, it or pt-br where espeak-ng is installed; the voice's own if left out.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.", show_default=False)
    ] = None,
    play: Annotated[bool, typer.Option("--play", help="Out loud; so it is without --output.")] = False,
    srt: Annotated[Path | None, typer.Option("--srt", help="Write captions.", show_default=False)] = None,
    lexicon: Annotated[
        Path | None, typer.Option("--lexicon", help="Lines of a word and its phonemes.", show_default=False)
    ] = None,
    voices: Annotated[bool, typer.Option("--voices", help="List the model's voices and leave.")] = False,
    precision: options.SpeechPrecision = options.Precision.FAST,
    seed: options.Seed = 0,
    trace: options.Trace = None,
    offline: options.Offline = False,
) -> None:
    """Speak a text; the first words leave while the rest is being made."""
    wanted: dict[str, Any] = dict(voice=voice, speed=speed, language=language, seed=seed)
    if lexicon is not None:
        wanted["pronunciations"] = _lexicon(lexicon)
    from antiphon.runtime.speech_options import SpeechOptions

    SpeechOptions(**wanted)  # refuses what is wrong before anything is loaded
    sound_format = _format(output, format_)
    said = "" if voices else _text(text, file)
    if not voices:
        _check_destination(output, play)
    from antiphon.cli.session import engine_for, load

    loaded = load(model, offline, precision=precision)
    if voices:
        _print_voices(loaded.voices, loaded.name)
        return
    with (
        engine_for(loaded, 1, "fp16", record_requests=trace is not None) as engine,
        engine.speak(said, **wanted) as synthesis,
    ):
        chunks = []
        with _Sinks(output, sound_format, play or output is None, synthesis.rate) as sinks:
            for chunk in synthesis:
                sinks.write(chunk.samples)
                if srt is not None:
                    chunks.append(replace(chunk, samples=chunk.samples[:0]))
        if srt is not None:
            from antiphon.runtime.speech_captions import to_srt

            srt.write_text(to_srt(chunks), encoding="utf-8")
        if trace is not None:
            engine.write_trace(trace)
        print(_report(synthesis.stats), file=sys.stderr)


def _text(text: str | None, file: Path | None) -> str:
    if file is not None:
        if text is not None:
            raise InvalidRequestError("give the text or --file, not both")
        try:
            said = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(f"cannot read {file} as text: {error}") from error
    elif text is None or text == "-":
        said = sys.stdin.read()
    else:
        said = text
    if not said.strip():
        raise InvalidRequestError("there is no text to speak")
    return said


def _lexicon(path: Path) -> dict[str, str]:
    """Words with their phonemes, a line each; empty lines and those that begin with # are passed over."""
    entries: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"cannot read the lexicon {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, phonemes = line.strip().partition(" ")
            if not phonemes.strip():
                raise InvalidRequestError(f"{path}, line {number}: {line.strip()!r} is not a word and its phonemes")
            entries[word] = phonemes.strip()
    return entries


def _format(output: str | None, format_: str | None) -> str:
    if format_ is not None:
        if format_ not in FORMATS:
            raise InvalidRequestError(f"--format is {format_!r}; there are: {', '.join(FORMATS)}")
        return format_
    if output in (None, "-"):
        return "wav"
    suffix = Path(str(output)).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidRequestError(f"{output} does not tell its format; there are: {', '.join(SUFFIXES)}, or --format")
    return SUFFIXES[suffix]


def _check_destination(output: str | None, play: bool) -> None:
    if (play or output is None) and _player(24_000) is None:
        names = ", ".join(player[0] for player in PLAYERS)
        raise InvalidRequestError(f"nothing here plays sound (looked for: {names}); write it with -o speech.wav")
    if output == "-" and sys.stdout.isatty():
        raise InvalidRequestError("standard output is a terminal; give -o a file")


def _player(rate: int) -> list[str] | None:
    found = next((player for player in PLAYERS if shutil.which(player[0])), None)
    return None if found is None else [part.format(rate) for part in found]


class _Sink(Protocol):
    """Somewhere that samples go."""

    def write(self, samples: Floats) -> None: ...

    def close(self) -> None: ...


class _WavFile:
    """A WAV file that states its length."""

    def __init__(self, path: str, rate: int) -> None:
        self._file = wave.open(path, "wb")  # noqa: SIM115  (closed by `close`)
        self._file.setnchannels(1)
        self._file.setsampwidth(2)
        self._file.setframerate(rate)

    def write(self, samples: Floats) -> None:
        from antiphon.audio.pcm import to_s16

        self._file.writeframes(to_s16(samples).tobytes())

    def close(self) -> None:
        self._file.close()


class _Encoded:
    """A file or pipe of an encoder's bytes."""

    def __init__(self, stream: IO[bytes], format_: str, rate: int) -> None:
        from antiphon.audio.encode import Encoder

        self._stream = stream
        self._encoder = Encoder(format_, rate)  # type: ignore[arg-type]

    def write(self, samples: Floats) -> None:
        self._stream.write(self._encoder.push(samples))
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(self._encoder.finish())
        self._stream.flush()
        if self._stream is not sys.stdout.buffer:
            self._stream.close()


class _Player:
    """A program that plays what it is given."""

    def __init__(self, rate: int) -> None:
        command = _player(rate)
        assert command is not None
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def write(self, samples: Floats) -> None:
        from antiphon.audio.pcm import to_s16

        assert self._process.stdin is not None
        try:
            self._process.stdin.write(to_s16(samples).tobytes())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise AudioError("the program that plays the sound has ended") from error

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class _Sinks:
    """Everywhere that the sound goes; opened with the first samples, so that a text without any leaves no file."""

    def __init__(self, output: str | None, format_: str, play: bool, rate: int) -> None:
        self._arguments = (output, format_, play, rate)
        self._sinks: list[_Sink] = []

    def write(self, samples: Floats) -> None:
        if not self._sinks:
            self._open(*self._arguments)
        for sink in self._sinks:
            sink.write(samples)

    def _open(self, output: str | None, format_: str, play: bool, rate: int) -> None:
        try:
            if output == "-":
                self._sinks.append(_Encoded(sys.stdout.buffer, format_, rate))
            elif output is not None and format_ == "wav":
                self._sinks.append(_WavFile(output, rate))
            elif output is not None:
                self._sinks.append(_Encoded(open(output, "wb"), format_, rate))  # noqa: SIM115  (closed with the sink)
        except OSError as error:
            raise InvalidRequestError(f"cannot write {output}: {error.strerror or error}") from error
        if play:
            self._sinks.append(_Player(rate))

    def __enter__(self) -> _Sinks:
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self._sinks:
            sink.close()


def _print_voices(voices: Any, model: str) -> None:
    if voices is None:
        raise InvalidRequestError(f"model {model!r} does not speak")
    for voice in voices.info():
        print(f"{voice.name:16} {voice.language:6} {voice.gender or ''}".rstrip())


def _report(stats: SpeechStats) -> str:
    """What it cost, for people."""
    count = stats.num_skipped_characters
    skipped = f"; {count} character{'' if count == 1 else 's'} could not be read: " if stats.skipped else ""
    skipped += ", ".join(stats.skipped[:8]) + (", ..." if len(stats.skipped) > 8 else "")
    return (
        f"{stats.audio_seconds:.1f} s of speech in {stats.processing_seconds:.1f} s "
        f"(real-time factor {stats.real_time_factor:.2f}), first sound after {stats.time_to_first_audio * 1e3:.0f} ms, "
        f"{stats.num_clauses} clauses, worst playback deficit {stats.worst_deficit * 1e3:.0f} ms{skipped}"
    )
