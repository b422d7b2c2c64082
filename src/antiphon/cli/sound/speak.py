"""`antiphon speak`: text to speech, into a file, to a pipe, or out loud."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.remote.address import chosen_server
from antiphon.cli.sound.sound_output import FORMATS, Sinks, check_destination, sound_format, unreadable_note, voice_line
from antiphon.cli.terminal.files import check_writable, read_stdin, write_text
from antiphon.counted import counted
from antiphon.errors import InvalidRequestError, UsageError
from antiphon.weights.catalog.model_tasks import check_catalog_task

if TYPE_CHECKING:
    from antiphon.runtime.calls.speech import SpeechStats

DEFAULT_MODEL = "hibari-6m"


def speak(
    context: typer.Context,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="Text to speak; standard input if omitted or '-'.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Speak this text file.", show_default=False)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Sound file to write; '-' is standard output.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="Speech model.", autocompletion=options.complete_model)
    ] = DEFAULT_MODEL,
    voice: Annotated[
        str | None,
        typer.Option("--voice", help="Voice, or a mixture such as af_bella:0.7+af_sky:0.3.", show_default=False),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="Speaking rate, from 0.25 to 4.")] = 1.0,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            help="Language of the text: en-us or en-gb; with espeak-ng also es, fr, hi, it or pt-br. The voice's own "
            "if omitted.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"Sound format: {', '.join(FORMATS)}. From the file's name if omitted.",
            show_default=False,
        ),
    ] = None,
    play: Annotated[bool, typer.Option("--play", help="Play through the speakers (the default without --output).")] = (
        False
    ),
    srt: Annotated[
        Path | None, typer.Option("--srt", metavar="FILE", help="Write subtitles (SRT).", show_default=False)
    ] = None,
    lexicon: Annotated[
        Path | None,
        typer.Option(
            "--lexicon", metavar="FILE", help="Pronunciations: one word and its phonemes per line.", show_default=False
        ),
    ] = None,
    voices: Annotated[bool, typer.Option("--voices", help="List voices and exit.")] = False,
    device: options.Device = "auto",
    precision: options.SpeechPrecision = options.Precision.FAST,
    seed: options.Seed = 0,
    trace: options.Trace = None,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Turn text into speech; playback starts before synthesis ends."""
    server = chosen_server(base_url, api_key_file, local)
    if voices:
        if server is None:
            _print_voices(model, offline)
        else:
            from antiphon.cli.sound.remote_speech import print_voices_remotely

            print_voices_remotely(context, server)
        return
    wanted: dict[str, Any] = dict(voice=voice, speed=speed, language=language, seed=seed)
    if lexicon is not None:
        wanted["pronunciations"] = _lexicon(lexicon)
    if server is None:
        from antiphon.runtime.calls.speech_options import SpeechOptions

        with usage_errors():
            SpeechOptions(**wanted)
        check_catalog_task(model, "synthesize")
        if voice is not None:
            _check_voice(voice, model)
    file_format = sound_format(output, format_)
    said = _text(text, file)
    check_destination(output, play)
    if srt is not None:
        check_writable(srt)
    if server is not None:
        from antiphon.cli.sound.remote_speech import speak_remotely

        speak_remotely(context, server, said, file_format, wanted.get("pronunciations", {}))
        return
    from antiphon.cli.local.session import engine_for, load

    loaded = load(model, offline, precision=precision, task="synthesize", device=device)
    with (
        engine_for(loaded, 1, None, record_requests=trace is not None) as engine,
        engine.speak(said, **wanted) as synthesis,
    ):
        chunks = []
        with Sinks(output, file_format, play or output is None, synthesis.rate) as sinks:
            for chunk in synthesis:
                sinks.write(chunk.samples)
                if srt is not None:
                    chunks.append(replace(chunk, samples=chunk.samples[:0]))
        if srt is not None:
            from antiphon.runtime.speech.captions import to_srt

            write_text(srt, to_srt(chunks))
        if trace is not None:
            engine.write_trace(trace)
        print(_report(synthesis.stats), file=sys.stderr)


def _check_voice(voice: str, model: str) -> None:
    """Reject a voice of another model of the catalog; what else may be wrong with it is found when it is used."""
    from antiphon.runtime.voices.names import catalog_voices, models_with_voice

    own = catalog_voices(model)
    for part in voice.split("+"):
        name = part.partition(":")[0].strip()
        if own is not None and name not in own and (others := models_with_voice(name)):
            raise UsageError(f"{name} is a voice of {others[0]}, not of {model}; add --model {others[0]}")


def _print_voices(model: str, offline: bool) -> None:
    """List the voices; the weights are loaded only if neither the catalog nor the file names have them."""
    from antiphon.runtime.voices.aliases import aliases_for
    from antiphon.runtime.voices.names import catalog_voices, voice_gender, voice_language, voices_among

    check_catalog_task(model, "synthesize")
    names = catalog_voices(model)
    if names is None:
        from antiphon.cli.terminal.download_progress import fetch_progress
        from antiphon.weights.catalog.resolve import resolve

        with fetch_progress() as progress:
            names = voices_among(resolve(model, offline=offline, progress=progress).files)
    if not names:
        from antiphon.cli.local.session import load

        loaded = load(model, offline, task="synthesize")
        names = [] if loaded.voices is None else loaded.voices.names
    aliases = aliases_for(names, names[0]) if names else {}
    for name in names:
        also = [alias for alias, voice in aliases.items() if voice == name]
        print(voice_line(name, voice_language(name), voice_gender(name) or "", also))


def _text(text: str | None, file: Path | None) -> str:
    if file is not None:
        if text is not None:
            raise UsageError("give the text or --file, not both")
        try:
            said = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(f"cannot read {file} as text: {error}") from error
    elif text is None and sys.stdin.isatty():
        raise UsageError("there is no text to speak: give it as an argument, with --file, or on standard input")
    elif text is None or text == "-":
        said = read_stdin()
    else:
        said = text
    if not said.strip():
        raise UsageError("there is no text to speak: give it as an argument, with --file, or on standard input")
    return said


def _lexicon(path: Path) -> dict[str, str]:
    """Phonemes by word, from a file with one word and its phonemes per line; # begins a comment line."""
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


def _report(stats: SpeechStats) -> str:
    """What it cost, in one line."""
    skipped = unreadable_note(stats.num_skipped_characters, stats.skipped)
    return (
        f"{stats.audio_seconds:.1f} s of speech in {stats.processing_seconds:.1f} s "
        f"(real-time factor {stats.real_time_factor:.2f}), first sound after {stats.time_to_first_audio * 1e3:.0f} ms, "
        f"{counted(stats.num_clauses, 'clause')}, worst playback deficit {stats.worst_deficit * 1e3:.0f} ms{skipped}"
    )
