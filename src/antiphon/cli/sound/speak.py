"""`antiphon speak`: text to speech, into a file, to a pipe, or out loud."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antiphon.cli.arguments import model_options
from antiphon.cli.arguments.answer_options import Seed
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.given import Given
from antiphon.cli.remote.options import ServerOptions
from antiphon.cli.sound.sound_output import FORMATS, Sinks, check_destination, sound_format, unreadable_note, voice_line
from antiphon.cli.terminal.files import check_writable, read_stdin, read_text, write_text
from antiphon.counted import counted
from antiphon.errors import InvalidRequestError, UsageError
from antiphon.weights.catalog.defaults import SPEECH_MODEL
from antiphon.weights.catalog.model_tasks import check_reference

if TYPE_CHECKING:
    from antiphon.runtime.calls.speech import SpeechStats
    from antiphon.runtime.loading.loading import LoadedModel


#: Options that also apply to a server; the others concern a model loaded in this process.
REMOTE = (
    "text", "file", "output", "model", "voice", "speed", "language", "format_", "play", "lexicon", "voices",
)  # fmt: skip
SoundFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help=f"Sound format: {', '.join(FORMATS)}. From the file's name if omitted."
    ),
]


class SpokenVoice(OptionGroup):
    """Options for the voice of a text; names are those of `SpeechOptions`."""

    voice: Annotated[str | None, typer.Option(help="Voice, or a mixture such as af_bella:0.7+af_sky:0.3.")] = None
    speed: Annotated[float, typer.Option(help="Speaking rate, from 0.25 to 4.")] = 1.0
    language: Annotated[
        str | None,
        typer.Option(
            help="Language of the text: en-us or en-gb; with espeak-ng also es, fr, hi, it or pt-br. The voice's own "
            "if omitted."
        ),
    ] = None


def speak(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Text to speak; standard input if omitted or '-'.")
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Speak this text file.")] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Sound file to write; '-' is standard output."),
    ] = None,
    model: Annotated[str, model_options.model_option("--model", "Speech model.")] = SPEECH_MODEL,
    how: SpokenVoice,
    format_: SoundFormat = None,
    play: Annotated[bool, typer.Option("--play", help="Play through the speakers (the default without --output).")] = (
        False
    ),
    srt: Annotated[Path | None, typer.Option(metavar="FILE", help="Write subtitles (SRT).")] = None,
    lexicon: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pronunciations: one word and its phonemes per line.")
    ] = None,
    voices: Annotated[bool, typer.Option("--voices", help="List voices and exit.")] = False,
    device: model_options.Device = "auto",
    precision: Annotated[
        Literal["fast", "fp32"],
        typer.Option(help="fast: 16-bit floats where the processor has them; fp32: always 32-bit."),
    ] = "fast",
    seed: Seed = 0,
    trace: model_options.Trace = None,
    offline: model_options.Offline = False,
    verbose: model_options.Verbose = False,
    remote: ServerOptions,
) -> None:
    """Turn text into speech; playback starts before synthesis ends."""
    named = remote.named_server()
    if voices:
        if named is not None:
            Given.of(context).allow(REMOTE, named)
        _list_voices(named, model, offline)
        return
    wanted: dict[str, Any] = dict(vars(how), seed=seed)
    if lexicon is not None:
        wanted["pronunciations"] = _lexicon(lexicon)
    if named is None:
        _check_options(model, wanted)
    file_format = sound_format(output, format_)
    said = _text(text, file)
    check_destination(output, play)
    if srt is not None:
        check_writable(srt)
    needs_two_forms = play and output is not None and file_format != "wav"  # a server sends one
    server = remote.server(context, REMOTE, {"synthesize": model}, stays_here=needs_two_forms)
    if server is not None:
        from antiphon.cli.remote.running import local_if_unable
        from antiphon.cli.sound.remote_speech import speak_remotely

        with local_if_unable(server):
            speak_remotely(context, server, said, file_format, wanted.get("pronunciations", {}))
            return
    from antiphon.cli.local.session import load

    loaded = load(model, offline, precision=precision, task="synthesize", device=device, verbose=verbose)
    _speak(loaded, said, wanted, Sinks(output, file_format, play or output is None), srt, trace)


def _speak(
    loaded: LoadedModel, text: str, wanted: dict[str, Any], sinks: Sinks, srt: Path | None, trace: Path | None
) -> None:
    from antiphon.cli.local.session import engine_for

    chunks = []
    with engine_for(loaded, 1, None, trace=trace) as engine, engine.speak(text, **wanted) as synthesis:
        with sinks:
            for chunk in synthesis:
                sinks.write(chunk.samples, synthesis.rate)
                if srt is not None:
                    chunks.append(replace(chunk, samples=chunk.samples[:0]))
        if srt is not None:
            from antiphon.runtime.speech.captions import to_srt

            write_text(srt, to_srt(chunks))
        print(_report(synthesis.stats), file=sys.stderr)


def _check_options(model: str, wanted: dict[str, Any]) -> None:
    """Raise if no speech model takes the options, or if the catalog model or voice does not fit."""
    from antiphon.runtime.calls.speech_options import SpeechOptions

    with usage_errors():
        SpeechOptions(**wanted)
    check_reference(model, "synthesize")
    if wanted["voice"] is not None:
        _check_voice(wanted["voice"], model)


def _check_voice(voice: str, model: str) -> None:
    """Raise UsageError for a voice of another catalog model; other errors of a voice are found when it is used."""
    from antiphon.runtime.voices.names import catalog_voices, models_with_voice

    own = catalog_voices(model)
    for part in voice.split("+"):
        name = part.partition(":")[0].strip()
        if own is not None and name not in own and (others := models_with_voice(name)):
            raise UsageError(f"{name} is a voice of {others[0]}, not of {model}; add --model {others[0]}")


def _list_voices(server: ServerAddress | None, model: str, offline: bool) -> None:
    """List a model's voices; load its weights only if neither the catalog nor its file names have the voices."""
    if server is not None:
        from antiphon.cli.sound.remote_speech import print_voices_remotely

        print_voices_remotely(server, model)
        return
    from antiphon.runtime.voices.aliases import aliases_for
    from antiphon.runtime.voices.names import catalog_voices, voice_gender, voice_language, voices_among

    check_reference(model, "synthesize")
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
        said = read_text(file)
    elif text is None or text == "-":
        said = "" if text is None and sys.stdin.isatty() else read_stdin()
    else:
        said = text
    if not said.strip():
        raise UsageError("there is no text to speak: give it as an argument, with --file, or on standard input")
    return said


def _lexicon(path: Path) -> dict[str, str]:
    """Read phonemes by word, from a file with a word and its phonemes per line; # begins a comment line."""
    entries: dict[str, str] = {}
    for number, line in enumerate(read_text(path, f"cannot read the lexicon {path}").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, phonemes = line.strip().partition(" ")
            if not phonemes.strip():
                raise InvalidRequestError(f"{path}, line {number}: {line.strip()!r} is not a word and its phonemes")
            entries[word] = phonemes.strip()
    return entries


def _report(stats: SpeechStats) -> str:
    skipped = unreadable_note(stats.num_skipped_characters, stats.skipped)
    return (
        f"{stats.audio_seconds:.1f} s of speech in {stats.processing_seconds:.1f} s "
        f"(real-time factor {stats.real_time_factor:.2f}), first sound after {stats.time_to_first_audio * 1e3:.0f} ms, "
        f"{counted(stats.num_clauses, 'clause')}, worst playback deficit {stats.worst_deficit * 1e3:.0f} ms{skipped}"
    )
