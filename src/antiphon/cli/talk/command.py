"""`antiphon talk`: a conversation by voice, with models in this process or in a running server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.options import ServerOptions
from antiphon.cli.talk import flags
from antiphon.cli.terminal.notes import note
from antiphon.errors import AudioError, InvalidRequestError
from antiphon.weights.catalog.defaults import CHAT_MODEL, SPEECH_MODEL, TRANSCRIPTION_MODEL
from antiphon.weights.catalog.model_tasks import check_reference

if TYPE_CHECKING:
    from antiphon.audio.samples import Floats
    from antiphon.cli.talk.run import Setup
    from antiphon.runtime.loading.loading import LoadedModel
    from antiphon.runtime.voice.settings import VoiceSettings

INSTRUCTIONS = (
    "You are a helpful assistant in a spoken conversation. Answer in one or two short sentences of plain words, "
    "without lists, code or markup."
)
#: Options that also apply to a server; the others concern models loaded in this process.
REMOTE = (
    "model", "transcription_model", "voice", "instructions", "language", "turn_detection", "eagerness", "push_to_talk",
    "input_", "output", "waterfall", "max_tokens", "temperature",
)  # fmt: skip


def talk(
    context: typer.Context,
    *,
    turns: flags.TurnOptions,
    voices: flags.ReplyOptions,
    temperature: answer_options.Temperature = None,
    max_tokens: answer_options.MaxTokens = 256,
    waterfall: Annotated[bool, typer.Option("--waterfall", help="Show where the time of each turn went.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Like --waterfall, with the weights' form, memory and loading."),
    ] = False,
    device: model_options.Device = "auto",
    kv_memory: model_options.KVMemory = None,
    speculate: model_options.Speculate = None,
    offline: model_options.Offline = False,
    remote: ServerOptions,
) -> None:
    """Talk with a model: speak, hear the answer, and interrupt it.

    Each turn is shown with its latency. Ctrl-C stops an answer and, when nothing is being said, ends the conversation.
    """
    named = remote.named_server()
    turns.check()
    sampling = answer_options.sampling_settings(temperature=temperature, max_tokens=max_tokens)
    names = {
        "generate": voices.model or CHAT_MODEL,
        "transcribe": voices.transcription_model or TRANSCRIPTION_MODEL,
        "synthesize": voices.speech_model or SPEECH_MODEL,
    }
    is_default = not (voices.model or voices.transcription_model or voices.speech_model)
    if named is None:
        for task, name in names.items():
            check_reference(name, task)
    import asyncio

    from antiphon.cli.local.session import engine_options
    from antiphon.cli.talk.run import Setup

    recording = None if turns.input_ is None else _recording(turns.input_)
    setup = Setup(recording, turns.output, turns.push_to_talk, waterfall or verbose)
    setup.check_devices()
    server = remote.server(context, REMOTE, names)
    if server is None and is_default:
        note(f"{', '.join(names.values())}, the defaults; `antiphon list` shows other models")
    settings = _settings(turns, voices, sampling)
    if server is not None:
        from antiphon.cli.remote.running import local_if_unable

        if server.is_found:  # the models that would compute here
            settings = replace(settings, model=names["generate"], transcription_model=names["transcribe"])
        with local_if_unable(server):
            asyncio.run(_with_server(server, setup, settings))
            return
    loaded = _loaded(names, offline, device, verbose)
    asyncio.run(_with_engine(loaded, setup, settings, engine_options(kv_memory, speculate) | {"device": device}))


def _recording(path: Path) -> Floats:
    """Return the recording's samples at 16 kHz."""
    if not path.is_file():
        raise InvalidRequestError(f"there is no file {path}")
    from antiphon.audio.decode import decode

    try:
        values = decode(path).values
    except AudioError as error:
        raise AudioError(f"{path}: {error}") from error
    if not len(values):
        raise AudioError(f"{path} has no sound")
    return values


def _settings(turns: flags.TurnOptions, voices: flags.ReplyOptions, sampling: dict[str, Any]) -> VoiceSettings:
    from antiphon.runtime.calls.transcription_options import TranscriptionOptions
    from antiphon.runtime.calls.turn_settings import Eagerness, TurnDetection, TurnSettings
    from antiphon.runtime.voice.settings import VoiceSettings

    detection = "manual" if turns.push_to_talk else turns.turn_detection or "semantic_vad"
    return VoiceSettings(
        turns=TurnSettings(TurnDetection(detection), eagerness=Eagerness(turns.eagerness or "auto")),
        transcription=TranscriptionOptions(language=voices.language),
        instructions=INSTRUCTIONS if voices.instructions is None else voices.instructions,
        voice=voices.voice,
        model=voices.model,
        transcription_model=voices.transcription_model,
        **sampling,
    )


# -- models in this process ---------------------------------------------------------------------------------------


def _loaded(names: dict[str, str], offline: bool, device: str, verbose: bool) -> dict[str, LoadedModel]:
    """Load the models by task; transcription models in int8, as on a server."""
    from antiphon.cli.chat_models.embedded import EmbeddedModel
    from antiphon.cli.local.session import load

    made = {}
    for task, name in names.items():
        quantize = "auto" if task == "transcribe" else None
        made[task] = load(name, offline, quantize=quantize, task=task, device=device, verbose=verbose)
    EmbeddedModel.check(made["generate"])
    return made


async def _with_engine(
    loaded: dict[str, LoadedModel], setup: Setup, settings: VoiceSettings, for_engine: dict[str, Any]
) -> None:
    from antiphon.audio.echo import EchoGuard
    from antiphon.cli.talk.engine_voice import EngineVoice
    from antiphon.cli.talk.run import converse
    from antiphon.runtime.frontend.async_engine import AsyncEngine
    from antiphon.runtime.voice.session import VoiceSession

    voices = loaded["synthesize"].voices
    if voices is not None:
        voices.parse(settings.voice)  # raises for an unknown voice, with the names of all voices
    async with AsyncEngine(*loaded.values(), policy="priority", **for_engine) as engine:
        services = EngineVoice(engine, loaded["generate"], loaded["transcribe"].name, loaded["synthesize"].name)
        await services.warm_up(settings)
        echo = EchoGuard() if setup.has_echo else None
        async with VoiceSession(services, settings, echo=echo) as session:
            await converse(session, setup)


# -- a server -----------------------------------------------------------------------------------------------------


async def _with_server(server: ServerAddress, setup: Setup, settings: VoiceSettings) -> None:
    from antiphon.cli.talk.realtime_session import RealtimeSession
    from antiphon.cli.talk.run import converse

    session = await RealtimeSession.open(server, settings.model or "gpt-realtime", wire_session(settings))
    try:
        await converse(session, setup)
    finally:
        await session.aclose()


def wire_session(settings: VoiceSettings) -> dict[str, Any]:
    """Convert settings to a session of the Realtime API. OpenAI's model names select the server's default models."""
    detection: dict[str, Any] | None = {"type": str(settings.turns.detection)}
    match settings.turns.detection:
        case "manual":
            detection = None
        case "semantic_vad":
            detection = {"type": "semantic_vad", "eagerness": str(settings.turns.eagerness)}
    transcription = {"model": settings.transcription_model or "whisper-1"}
    if settings.transcription.language is not None:
        transcription["language"] = settings.transcription.language
    pcm = {"type": "audio/pcm", "rate": 24000}
    session: dict[str, Any] = {
        "type": "realtime",
        "instructions": settings.instructions,
        "output_modalities": ["audio"],
        "max_output_tokens": settings.max_tokens,
        "audio": {
            "input": {"format": pcm, "transcription": transcription, "turn_detection": detection},
            "output": {"format": pcm, **({} if settings.voice is None else {"voice": settings.voice})},
        },
    }
    if settings.temperature is not None:
        session["temperature"] = settings.temperature
    return session
