"""`antiphon transcribe`: recordings and live sound to text and subtitles."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antiphon.cli.arguments import model_options
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.remote.options import ServerOptions
from antiphon.cli.sound.audio_devices import audio_devices
from antiphon.cli.sound.recording_progress import RecordingProgress, sound_seconds
from antiphon.cli.sound.transcript_output import TranscriptOutput, report_failures
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import AntiphonError, AudioError, InvalidRequestError, UsageError
from antiphon.weights.catalog.defaults import TRANSCRIPTION_MODEL

if TYPE_CHECKING:
    from antiphon.runtime.calls.transcript import Transcript
    from antiphon.runtime.frontend.engine import Engine

FORMATS = ("text", "json", "verbose_json", "srt", "vtt")
#: Options that also apply to a server; the others concern a model loaded in this process.
REMOTE = (
    "files", "model", "language", "translate", "prompt", "format_", "words", "beams", "sequential", "output",
)  # fmt: skip

Quantize = Annotated[
    Literal["auto", "int8", "q4", "none"], typer.Option(help="Quantise float weights to this type; auto is int8.")
]


class WantedText(OptionGroup):
    """Options for the text of a recording; names are those of `TranscriptionOptions`."""

    language: Annotated[str | None, typer.Option(help="Language code or name; detected if omitted.")] = None
    translate: Annotated[bool, typer.Option("--translate", help="Translate to English.")] = False
    prompt: Annotated[str, typer.Option(help="Context for the model: names, spelling, style.")] = ""
    words: Annotated[
        bool, typer.Option("--words", help="Give the times of each word: a line (text) or a cue (srt, vtt) for each.")
    ] = False
    beams: Annotated[int, typer.Option("--beam", help="Beam width; 1 is greedy.")] = 1
    sequential: Annotated[
        bool,
        typer.Option("--sequential", help="Transcribe window by window, using previous text as context (slower)."),
    ] = False


def transcribe(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Recordings; '-' is standard input. With --live, the microphone if omitted."
        ),
    ] = None,
    *,
    model: Annotated[str, model_options.model_option("--model")] = TRANSCRIPTION_MODEL,
    text: WantedText,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help=f"Output format: {', '.join(FORMATS)}.")
    ] = "text",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write one file for each recording into this folder.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Print text while the sound arrives; the last words may still change.")
    ] = False,
    quantize: Quantize = "auto",
    speculate: Annotated[
        Speculation | None,
        typer.Option(
            help="With --live: draft new text from the last one, for fewer steps; the text is the same. Default: off."
        ),
    ] = None,
    device: model_options.Device = "auto",
    kv_memory: model_options.KVMemory = None,
    trace: model_options.Trace = None,
    offline: model_options.Offline = False,
    verbose: model_options.Verbose = False,
    remote: ServerOptions,
) -> None:
    """Transcribe recordings, several at once, or live sound."""
    names = files or []
    _check_usage(names, format_, text.words, live, output, speculate)
    if remote.named_server() is None:
        from antiphon.runtime.calls.transcription_options import TranscriptionOptions

        with usage_errors():
            TranscriptionOptions(**vars(text))
    server = remote.server(context, REMOTE, {"transcribe": model})
    destination = TranscriptOutput(names, format_, output)
    # Read in this thread, where Ctrl-C interrupts the read.
    piped = sys.stdin.buffer.read() if "-" in names and not live else b""
    if server is not None:
        from antiphon.cli.remote.running import local_if_unable
        from antiphon.cli.sound.remote_transcription import transcribe_remotely

        with local_if_unable(server):
            transcribe_remotely(context, server, names, destination, piped)
            return
    from antiphon.cli.local.session import engine_for, load

    if live and not names:
        audio_devices("input")  # a missing microphone is an error before the model is loaded
    loaded = load(model, offline, quantize=quantize, task="transcribe", device=device, verbose=verbose)
    with engine_for(loaded, kv_memory, None, speculate=speculate, trace=trace) as engine:
        if live:
            from antiphon.cli.sound.live import transcribe_live

            print(_report(transcribe_live(engine, names[0] if names else None, vars(text))), file=sys.stderr)
        else:
            _files(engine, names, format_, destination, vars(text), piped)


def _check_usage(
    names: list[str], format_: str, words: bool, live: bool, output: Path | None, speculate: Speculation | None
) -> None:
    """Raise for options that contradict each other, and for missing recordings."""
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
    if speculate is not None and not live:
        raise UsageError("--speculate goes with --live: recordings are transcribed once")
    if speculate is Speculation.DRAFT:
        raise UsageError("--speculate is draft; transcription has no draft model: it is off or ngram")
    for name in names:
        if name != "-" and not Path(name).is_file():
            raise InvalidRequestError(f"there is no file {name}")


def _files(
    engine: Engine,
    names: list[str],
    format_: str,
    destination: TranscriptOutput,
    wanted: dict[str, Any],
    piped: bytes = b"",
) -> None:
    """Transcribe all recordings at once; write results in the order of the names. `piped` is standard input.

    A failed recording does not stop the rest.
    """
    from concurrent.futures import ThreadPoolExecutor

    from antiphon.runtime.transcription.captions import render

    failures = 0
    pool = ThreadPoolExecutor(min(32, len(names)))
    with RecordingProgress(names) as progress:
        sources: list[Any] = [io.BytesIO(piped) if name == "-" else Path(name) for name in names]
        running = [pool.submit(_one, engine, index, source, wanted, progress) for index, source in enumerate(sources)]
        try:
            for index, (name, future) in enumerate(zip(names, running, strict=True)):
                try:
                    transcript = future.result()
                    with progress.paused():
                        path = destination.write(index, render(transcript, format_, words=wanted["words"]))
                except AntiphonError as error:
                    failures += 1
                    with progress.paused():
                        print(f"antiphon: {name}: {error}", file=sys.stderr)
                    continue
                written = "" if path is None else f" -> {path}"
                with progress.paused():
                    print(f"{name}{written}: {_report(transcript)}", file=sys.stderr)
        except BaseException:  # Ctrl-C or unwritable output: drop waiting recordings, end running ones
            pool.shutdown(wait=False, cancel_futures=True)
            engine.close()
            raise
    pool.shutdown()
    if failures:
        report_failures(failures, len(names))


def _one(engine: Engine, index: int, source: Any, wanted: dict[str, Any], progress: RecordingProgress) -> Transcript:
    from antiphon.runtime.calls.transcript import Transcript

    if progress.is_shown and isinstance(source, Path):
        progress.update(index, 0.0, sound_seconds(source))
    for event in engine.transcribe_events(source, **wanted):
        if isinstance(event, Transcript):
            progress.update(index, event.duration, event.duration)
            return event
        progress.update(index, event.processed_seconds, event.total_seconds)
    raise AudioError("no transcript was made")


def _report(transcript: Transcript) -> str:
    stats = transcript.stats
    first = f", first text after {stats.time_to_first_text:.2f} s" if stats.time_to_first_text is not None else ""
    return (
        f"{stats.audio_seconds:.1f} s of sound, language {transcript.language}, {stats.processing_seconds:.2f} s "
        f"(real-time factor {stats.real_time_factor:.3f}){first}"
    )
