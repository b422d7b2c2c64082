"""Options that only `antiphon talk` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.arguments.model_options import model_option
from antiphon.cli.terminal.files import check_writable
from antiphon.errors import UsageError
from antiphon.weights.catalog.defaults import CHAT_MODEL, SPEECH_MODEL, TRANSCRIPTION_MODEL


class TurnOptions(OptionGroup):
    """Options for the sound's source and destination, and for the end of a turn."""

    input_: Annotated[
        Path | None,
        typer.Option(
            "--input", "-i", metavar="FILE", help="Say this recording, in real time, instead of using the microphone."
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the conversation (WAV: you left, answers right) instead of playing the answers.",
        ),
    ] = None
    push_to_talk: Annotated[
        bool, typer.Option("--push-to-talk", help="Enter begins and ends your turns. A recording is one turn.")
    ] = False
    turn_detection: Annotated[
        Literal["semantic_vad", "server_vad"] | None,
        typer.Option(
            help="semantic_vad (the default): a model decides whether you have finished; server_vad: half a second of "
            "silence ends your turn."
        ),
    ] = None
    eagerness: Annotated[
        Literal["low", "medium", "high", "auto"] | None,
        typer.Option(help="Longest wait of semantic_vad: low 8 s, medium 4 s, high 2 s; auto (the default) is medium."),
    ] = None

    def check(self) -> None:
        """Raise for options that contradict each other, and for an output that cannot be written."""
        if self.push_to_talk and (self.turn_detection or self.eagerness):
            raise UsageError("--push-to-talk ends turns by a key: remove --turn-detection and --eagerness")
        if self.eagerness and self.turn_detection == "server_vad":
            raise UsageError("--eagerness is for --turn-detection semantic_vad")
        if self.output is not None:
            if self.output.suffix.lower() != ".wav":
                raise UsageError(f"--output writes a WAV file; end {self.output.name} in .wav")
            check_writable(self.output)


class ReplyOptions(OptionGroup):
    """Options for the models, the voice and the instructions."""

    model: Annotated[str | None, model_option("--model", f"Chat model. Default: {CHAT_MODEL}, or the server's.")] = None
    transcription_model: Annotated[
        str | None,
        model_option("--transcription-model", f"Transcription model. Default: {TRANSCRIPTION_MODEL}, or the server's."),
    ] = None
    speech_model: Annotated[str | None, model_option("--speech-model", f"Speech model. Default: {SPEECH_MODEL}.")] = (
        None
    )
    voice: Annotated[str | None, typer.Option(help="Voice of the answers.")] = None
    instructions: Annotated[
        str | None, typer.Option(help="System message. Default: one that asks for short answers.")
    ] = None
    language: Annotated[str | None, typer.Option(help="Language you speak; detected if omitted.")] = None
