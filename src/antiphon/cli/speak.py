"""`antiphon speak`: text to speech, into a file, to a pipe, or out loud."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli import options
from antiphon.cli.remote.address import chosen_server
from antiphon.cli.sound_output import FORMATS, Sinks, check_destination, sound_format
from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.runtime.speech import SpeechStats

DEFAULT_MODEL = "kokoro-82m"


def speak(
    context: typer.Context,
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
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Speak a text; the first words leave while the rest is being made."""
    wanted: dict[str, Any] = dict(voice=voice, speed=speed, language=language, seed=seed)
    if lexicon is not None:
        wanted["pronunciations"] = _lexicon(lexicon)
    server = chosen_server(base_url, api_key_file, local)
    if server is None:
        from antiphon.runtime.speech_options import SpeechOptions

        SpeechOptions(**wanted)  # rejects what is wrong before anything is loaded
    file_format = sound_format(output, format_)
    said = "" if voices else _text(text, file)
    if not voices:
        check_destination(output, play)
    if server is not None:
        from antiphon.cli.remote.speech import speak_remotely

        speak_remotely(context, server, said, file_format, wanted.get("pronunciations", {}))
        return
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
        with Sinks(output, file_format, play or output is None, synthesis.rate) as sinks:
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


def _print_voices(voices: Any, model: str) -> None:
    if voices is None:
        raise InvalidRequestError(f"model {model!r} does not speak")
    for voice in voices.info():
        print(f"{voice.name:16} {voice.language:6} {voice.gender or ''}".rstrip())


def _report(stats: SpeechStats) -> str:
    """What it cost, for people."""
    skipped = f"; not pronounceable here and left out: {' '.join(stats.skipped[:8])}" if stats.skipped else ""
    return (
        f"{stats.audio_seconds:.1f} s of speech in {stats.processing_seconds:.1f} s "
        f"(real-time factor {stats.real_time_factor:.2f}), first sound after {stats.time_to_first_audio * 1e3:.0f} ms, "
        f"{stats.num_clauses} clauses, worst playback deficit {stats.worst_deficit * 1e3:.0f} ms{skipped}"
    )
