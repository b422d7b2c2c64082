"""`antiphon transcribe`: recordings and live sound to text and subtitles."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.remote.address import chosen_server
from antiphon.cli.sound.audio_devices import audio_devices
from antiphon.cli.sound.transcript_output import TranscriptOutput, report_failures
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import AntiphonError, AudioError, InvalidRequestError, UsageError
from antiphon.weights.catalog.model_tasks import check_catalog_task

if TYPE_CHECKING:
    from antiphon.runtime.calls.transcript import LiveUpdate, Transcript
    from antiphon.runtime.frontend.engine import Engine

DEFAULT_MODEL = "whisper-base.en"
FORMATS = ("text", "json", "verbose_json", "srt", "vtt")
LIVE_CHUNK_SECONDS = 0.25
SPEECH_RATE = 16_000


class Precision(StrEnum):
    AUTO = "auto"
    INT8 = "int8"
    Q4 = "q4"
    NONE = "none"


Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE", help="Recordings; '-' is standard input. With --live, the microphone if omitted.",
        show_default=False,
    ),
]  # fmt: skip


def transcribe(
    context: typer.Context,
    files: Files = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="MODEL", help=options.MODEL_HELP, autocompletion=options.complete_model),
    ] = DEFAULT_MODEL,
    language: Annotated[
        str | None, typer.Option("--language", help="Language code or name; detected if omitted.", show_default=False)
    ] = None,
    translate: Annotated[bool, typer.Option("--translate", help="Translate to English.")] = False,
    prompt: Annotated[
        str, typer.Option("--prompt", help="Context for the model: names, spelling, style.", show_default=False)
    ] = "",
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help=f"Output format: {', '.join(FORMATS)}.")
    ] = "text",
    words: Annotated[
        bool, typer.Option("--words", help="Give the times of each word: a line (text) or a cue (srt, vtt) for each.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Print text while the sound arrives; the last words may still change.")
    ] = False,
    beams: Annotated[int, typer.Option("--beam", help="Beam width; 1 is greedy.")] = 1,
    sequential: Annotated[
        bool,
        typer.Option("--sequential", help="Transcribe window by window, using previous text as context (slower)."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FOLDER", help="Write one file for each recording into this folder.", show_default=False
        ),
    ] = None,
    quantize: Annotated[
        Precision, typer.Option("--quantize", help="Quantise float weights to this type; auto is int8.")
    ] = Precision.AUTO,
    speculate: Annotated[
        Speculation | None,
        typer.Option(
            "--speculate",
            help="With --live: draft new text from the last one, for fewer steps; the text is the same. Default: off.",
            show_default=False,
        ),
    ] = None,
    device: options.Device = "auto",
    kv_memory: options.KVMemory = None,
    trace: options.Trace = None,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Transcribe recordings, several at once, or live sound."""
    names = files or []
    _check_usage(names, format_, words, live, output)
    if speculate is not None and not live:
        raise UsageError("--speculate goes with --live: recordings are transcribed once")
    if speculate is Speculation.DRAFT:
        raise UsageError("--speculate is draft; transcription has no draft model: it is off or ngram")
    for name in names:
        if name != "-" and not Path(name).is_file():
            raise InvalidRequestError(f"there is no file {name}")
    server = chosen_server(base_url, api_key_file, local)
    if server is not None:
        from antiphon.cli.sound.remote_transcription import transcribe_remotely

        transcribe_remotely(context, server, names, TranscriptOutput(names, format_, output))
        return
    from antiphon.runtime.calls.transcription_options import TranscriptionOptions

    wanted: dict[str, Any] = dict(
        language=language, translate=translate, prompt=prompt, words=words, beams=beams, sequential=sequential
    )
    with usage_errors():
        TranscriptionOptions(**wanted)
    check_catalog_task(model, "transcribe")
    destination = TranscriptOutput(names, format_, output)
    from antiphon.cli.local.session import engine_for, load

    if live and not names:
        audio_devices("input")  # an absent microphone is an error before the model is loaded
    loaded = load(model, offline, quantize=quantize, task="transcribe", device=device)
    with engine_for(loaded, kv_memory, None, speculate=speculate, record_requests=trace is not None) as engine:
        try:
            if live:
                _live(engine, names[0] if names else None, wanted)
            else:
                _files(engine, names, format_, destination, wanted)
        finally:
            if trace is not None:
                engine.write_trace(trace)


def _check_usage(names: list[str], format_: str, words: bool, live: bool, output: Path | None) -> None:
    if format_ not in FORMATS:
        raise UsageError(f"--format is {format_!r}; choose one of: {', '.join(FORMATS)}")
    if not names and not live:
        raise UsageError("no recording: give files, '-' for standard input, or --live for the microphone")
    if names.count("-") > 1:
        raise UsageError("'-' is standard input and can be given only once")
    if words and format_ == "json":
        raise UsageError("--words needs times, which --format json does not have; use verbose_json, text, srt or vtt")
    if live and len(names) > 1:
        raise UsageError(f"--live takes one source, not {len(names)}")
    if live and (words or output is not None or format_ != "text"):
        raise UsageError("--live prints plain text: it cannot be combined with --words, --format or --output")


def _files(
    engine: Engine, names: list[str], format_: str, destination: TranscriptOutput, wanted: dict[str, Any]
) -> None:
    """All recordings at once; results in the order of the names. A recording that fails does not stop the others."""
    from concurrent.futures import ThreadPoolExecutor

    from antiphon.runtime.transcription.captions import render

    failures = 0
    pool = ThreadPoolExecutor(min(32, len(names)))
    with _progress() as progress:
        sources: list[Any] = [io.BytesIO(sys.stdin.buffer.read()) if name == "-" else Path(name) for name in names]
        running = [
            pool.submit(_one, engine, name, source, wanted, progress)
            for name, source in zip(names, sources, strict=True)
        ]
        try:
            for index, (name, future) in enumerate(zip(names, running, strict=True)):
                try:
                    transcript = future.result()
                    path = destination.write(index, render(transcript, format_, words=wanted["words"]))
                except AntiphonError as error:
                    failures += 1
                    print(f"antiphon: {name}: {error}", file=sys.stderr)
                    continue
                written = "" if path is None else f" -> {path}"
                print(f"{name}{written}: {_report(transcript)}", file=sys.stderr)
        except BaseException:  # Ctrl-C, or output that cannot be written: what waits is dropped, what runs is ended
            pool.shutdown(wait=False, cancel_futures=True)
            engine.close()
            raise
    pool.shutdown()
    if failures:
        report_failures(failures, len(names))


def _one(engine: Engine, name: str, source: Any, wanted: dict[str, Any], progress: _Progress) -> Transcript:
    from antiphon.runtime.calls.transcript import Transcript

    for event in engine.transcribe_events(source, **wanted):
        if isinstance(event, Transcript):
            progress.update(name, event.duration, event.duration)
            return event
        progress.update(name, event.processed_seconds, event.total_seconds)
    raise AudioError("no transcript was made")


def _report(transcript: Transcript) -> str:
    stats = transcript.stats
    first = f", first text after {stats.time_to_first_text:.2f} s" if stats.time_to_first_text is not None else ""
    return (
        f"{stats.audio_seconds:.1f} s of sound, language {transcript.language}, {stats.processing_seconds:.2f} s "
        f"(real-time factor {stats.real_time_factor:.3f}){first}"
    )


# -- progress -----------------------------------------------------------------------------------------------------


class _Progress:
    """The progress of each recording: a bar each on a terminal, nothing elsewhere."""

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
    """Print final text, and on a terminal the part that may still change after it. Ctrl-C ends the recording."""
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
            # Erase the old tail, write the final text, save the cursor's position, write the new tail dimly.
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
    sounddevice = audio_devices("input")
    frames = round(LIVE_CHUNK_SECONDS * SPEECH_RATE)
    try:
        with sounddevice.InputStream(samplerate=SPEECH_RATE, channels=1, dtype="float32") as stream:
            print("listening; Ctrl-C ends", file=sys.stderr)
            while True:
                samples, _ = stream.read(frames)
                yield samples[:, 0].copy()
    except sounddevice.PortAudioError as error:
        raise AudioError(f"the microphone cannot be opened: {error}") from error
