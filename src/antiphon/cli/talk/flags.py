"""The options of `antiphon talk` that no other command has."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.arguments.shared import complete_model
from antiphon.cli.sound import speak, transcribe

CHAT_MODEL = "qwen2.5-coder-0.5b"
TRANSCRIPTION_MODEL = transcribe.DEFAULT_MODEL
SPEECH_MODEL = speak.DEFAULT_MODEL
INSTRUCTIONS = (
    "You are a helpful assistant in a spoken conversation. Answer in one or two short sentences of plain words, "
    "without lists, code or markup."
)


class Detection(StrEnum):
    SEMANTIC_VAD = "semantic_vad"
    SERVER_VAD = "server_vad"


class EagernessName(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    AUTO = "auto"


Input = Annotated[
    Path | None,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="Say this recording, in real time, instead of using the microphone.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the conversation (WAV: you left, answers right) instead of playing the answers.",
        show_default=False,
    ),
]
PushToTalk = Annotated[
    bool, typer.Option("--push-to-talk", help="Enter begins and ends your turns. A recording is one turn.")
]
TurnDetection = Annotated[
    Detection | None,
    typer.Option(
        "--turn-detection",
        help="semantic_vad (the default): a model decides whether you have finished; server_vad: half a second of "
        "silence ends your turn.",
        show_default=False,
    ),
]
Eagerness = Annotated[
    EagernessName | None,
    typer.Option(
        "--eagerness",
        help="Longest wait of semantic_vad: low 8 s, medium 4 s, high 2 s; auto (the default) is medium.",
        show_default=False,
    ),
]


def _model(option: str, help_: str) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(
        option, metavar="MODEL", help=help_, autocompletion=complete_model, show_default=False
    )
    return made


ChatModel = Annotated[str | None, _model("--model", f"Chat model. Default: {CHAT_MODEL}, or the server's.")]
TranscriptionModel = Annotated[
    str | None,
    _model("--transcription-model", f"Transcription model. Default: {TRANSCRIPTION_MODEL}, or the server's."),
]
SpeechModel = Annotated[str | None, _model("--speech-model", f"Speech model. Default: {SPEECH_MODEL}.")]
Voice = Annotated[str | None, typer.Option("--voice", help="Voice of the answers.", show_default=False)]
Instructions = Annotated[
    str | None,
    typer.Option(
        "--instructions", help="System message. Default: one that asks for short answers.", show_default=False
    ),
]
Language = Annotated[
    str | None, typer.Option("--language", help="Language you speak; detected if omitted.", show_default=False)
]
Waterfall = Annotated[bool, typer.Option("--waterfall", "--verbose", help="Show where the time of each turn went.")]
