"""`antiphon transcribe`: recordings and live sound to text and subtitles."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli import options
from antiphon.cli.remote.address import chosen_server
from antiphon.errors import AntiphonError, AudioError, InvalidRequestError

if TYPE_CHECKING:
    from antiphon.runtime.engine import Engine
    from antiphon.runtime.transcript import LiveUpdate, Transcript

DEFAULT_MODEL = "whisper-base.en"
FORMATS = ("text", "json", "verbose_json", "srt", "vtt")
SUFFIXES = {"text": "txt", "verbose_json": "json"}
LIVE_CHUNK_SECONDS = 0.25


class Precision(StrEnum):
    INT8 = "int8"
    Q4 = "q4"
    NONE = "none"


Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE...", help="Recordings; '-' is standard input. None with --live is the microphone."),
]


def transcribe(
    context: typer.Context,
    files: Files = None,
    model: Annotated[
        str, typer.Option("--model", help="Catalog name, file, folder, or hub:owner/repository[:file].")
    ] = DEFAULT_MODEL,
    language: Annotated[
        str | None, typer.Option("--language", help="Code or name; found out if left out.", show_default=False)
    ] = None,
    translate: Annotated[bool, typer.Option("--translate", help="Into English.")] = False,
    prompt: Annotated[str, typer.Option("--prompt", help="Text before: names and style to follow.")] = "",
    format_: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")] = "text",
    words: Annotated[bool, typer.Option("--words", help="Times of words too (verbose_json).")] = False,
    live: Annotated[bool, typer.Option("--live", help="Text as it is spoken; the tail may change.")] = False,
    beams: Annotated[int, typer.Option("--beam", help="Hypotheses that are searched.")] = 1,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Window after window, each given the text before it.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder for one file each.", show_default=False)
    ] = None,
    quantize: Annotated[
        Precision, typer.Option("--quantize", help="What weights that the file has as floats become.")
    ] = Precision.INT8,
    kv_memory: options.KVMemory = 1024,
    trace: options.Trace = None,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Transcribe recordings, many at once, or live sound."""
    if format_ not in FORMATS:
        raise InvalidRequestError(f"--format is {format_!r}; there are: {', '.join(FORMATS)}")
    names = files or []
    if not names and not live:
        raise InvalidRequestError("no recording: give files, '-' for standard input, or --live for the microphone")
    if live and len(names) > 1:
        raise InvalidRequestError(f"--live takes one source, not {len(names)}")
    for name in names:
        if name != "-" and not Path(name).is_file():
            raise InvalidRequestError(f"there is no file {name}")
    server = chosen_server(base_url, api_key_file, local)
    if server is not None:
        from antiphon.cli.remote.transcription import transcribe_remotely

        several = len(names) > 1
        transcribe_remotely(context, server, names, lambda name, text: _write(name, text, format_, output, several))
        return
    from antiphon.cli.session import engine_for, load
    from antiphon.runtime.transcription_options import TranscriptionOptions

    wanted: dict[str, Any] = dict(
        language=language, translate=translate, prompt=prompt, words=words, beams=beams, sequential=sequential
    )
    TranscriptionOptions(**wanted)
    loaded = load(model, offline, quantize=None if quantize is Precision.NONE else quantize)
    with engine_for(loaded, kv_memory, "fp16", record_requests=trace is not None) as engine:
        try:
            if live:
                _live(engine, names[0] if names else None, wanted)
            else:
                _files(engine, names, format_, output, wanted)
        finally:
            if trace is not None:
                engine.write_trace(trace)


def _files(engine: Engine, names: list[str], format_: str, output: Path | None, wanted: dict[str, Any]) -> None:
    """All recordings at once; results in the order of the names. A recording that fails does not stop the others."""
    from concurrent.futures import ThreadPoolExecutor

    from antiphon.runtime.captions import render

    failures = 0
    with _progress() as told, ThreadPoolExecutor(min(32, len(names))) as pool:
        running = [pool.submit(_one, engine, name, wanted, told) for name in names]
        for name, future in zip(names, running, strict=True):
            try:
                transcript = future.result()
            except AntiphonError as error:
                failures += 1
                print(f"antiphon: {name}: {error}", file=sys.stderr)
                continue
            _write(name, render(transcript, format_), format_, output, len(names) > 1)
            print(f"{name}: {_report(transcript)}", file=sys.stderr)
    if failures:
        raise typer.Exit(1)


def _write(name: str, text: str, format_: str, output: Path | None, several: bool) -> None:
    """A transcript into a file of its own in the folder `output`, or else to standard output."""
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        stem = "stdin" if name == "-" else Path(name).stem
        (output / f"{stem}.{SUFFIXES.get(format_, format_)}").write_text(text, encoding="utf-8")
        return
    if several:
        print(f"==> {name} <==")
    print(text, end="", flush=True)


def _one(engine: Engine, name: str, wanted: dict[str, Any], told: _Progress) -> Transcript:
    from antiphon.runtime.transcript import Transcript

    source: Any = sys.stdin.buffer if name == "-" else Path(name)
    for event in engine.transcribe_events(source, **wanted):
        if isinstance(event, Transcript):
            told.update(name, event.duration, event.duration)
            return event
        told.update(name, event.processed_seconds, event.total_seconds)
    raise AudioError(f"{name} gave no transcript")


def _report(transcript: Transcript) -> str:
    stats = transcript.stats
    first = f", first text after {stats.time_to_first_text:.2f} s" if stats.time_to_first_text is not None else ""
    return (
        f"{stats.audio_seconds:.1f} s of sound, language {transcript.language}, {stats.processing_seconds:.2f} s "
        f"(real-time factor {stats.real_time_factor:.3f}){first}"
    )


# -- progress -----------------------------------------------------------------------------------------------------


class _Progress:
    """Where each recording stands: a bar each on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        self._tasks: dict[str, Any] = {}
        self._bars: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()

    def update(self, name: str, done: float, total: float | None) -> None:
        if self._bars is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total)
            self._bars.update(self._tasks[name], completed=done, total=total)

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()


@contextmanager
def _progress() -> Iterator[_Progress]:
    progress = _Progress()
    try:
        yield progress
    finally:
        progress.close()


# -- live ---------------------------------------------------------------------------------------------------------


def _live(engine: Engine, name: str | None, wanted: dict[str, Any]) -> None:
    """Text as it is settled; on a terminal the tail stands after it until it is. Ctrl-C ends the recording."""
    screen = _Screen()
    with engine.listen(screen.show, **wanted) as session:
        try:
            for chunk in _microphone() if name is None else _pieces(name):
                session.push(chunk)
        except KeyboardInterrupt:
            pass
        transcript = session.finish()
    screen.end()
    print(_report(transcript), file=sys.stderr)


class _Screen:
    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()

    def show(self, update: LiveUpdate) -> None:
        if self._is_terminal:
            # Forget the old tail, write what is settled, remember the place, write the new tail dimly.
            sys.stdout.write(f"\x1b[J{update.text}\x1b7\x1b[2m{update.tail}\x1b[0m\x1b8")
        else:
            sys.stdout.write(update.text)
        sys.stdout.flush()

    def end(self) -> None:
        sys.stdout.write("\x1b[J\n" if self._is_terminal else "\n")
        sys.stdout.flush()


def _pieces(name: str) -> Iterator[Any]:
    from antiphon.audio.decode import decode_stream

    source: Any = sys.stdin.buffer if name == "-" else Path(name)
    with decode_stream(source, chunk_seconds=LIVE_CHUNK_SECONDS) as stream:
        yield from stream


def _microphone() -> Iterator[Any]:
    try:
        import sounddevice  # type: ignore[import-not-found,unused-ignore]
    except (ImportError, OSError) as error:
        raise AudioError(
            f"a microphone needs the package `sounddevice` and PortAudio, which cannot be loaded here: {error}"
        ) from error
    rate = 16_000
    frames = round(LIVE_CHUNK_SECONDS * rate)
    try:
        with sounddevice.InputStream(samplerate=rate, channels=1, dtype="float32") as stream:
            print("listening; Ctrl-C ends", file=sys.stderr)
            while True:
                samples, _ = stream.read(frames)
                yield samples[:, 0].copy()
    except sounddevice.PortAudioError as error:
        raise AudioError(f"the microphone cannot be opened: {error}") from error
