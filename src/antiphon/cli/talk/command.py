"""`antiphon talk`: a conversation by voice, with models in this process or in a running server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.remote.address import ServerAddress, chosen_server
from antiphon.cli.talk import flags
from antiphon.cli.terminal.files import check_writable
from antiphon.errors import AudioError, InvalidRequestError, UsageError
from antiphon.weights.catalog.model_tasks import check_catalog_task

if TYPE_CHECKING:
    from antiphon.audio.samples import Floats
    from antiphon.cli.talk.run import Setup
    from antiphon.runtime.loading.loading import LoadedModel
    from antiphon.runtime.voice.settings import VoiceSettings

#: Options that apply to a server too; the others concern models that are loaded here.
REMOTE = (
    "model", "transcription_model", "voice", "instructions", "language", "turn_detection", "eagerness", "push_to_talk",
    "input_", "output", "waterfall", "max_tokens", "temperature",
)  # fmt: skip


def talk(
    context: typer.Context,
    input_: flags.Input = None,
    output: flags.Output = None,
    push_to_talk: flags.PushToTalk = False,
    turn_detection: flags.TurnDetection = None,
    eagerness: flags.Eagerness = None,
    model: flags.ChatModel = None,
    transcription_model: flags.TranscriptionModel = None,
    speech_model: flags.SpeechModel = None,
    voice: flags.Voice = None,
    instructions: flags.Instructions = None,
    language: flags.Language = None,
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = 256,
    waterfall: flags.Waterfall = False,
    device: options.Device = "auto",
    kv_memory: options.KVMemory = None,
    speculate: options.Speculate = None,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Talk with a model: speak, hear the answer, and interrupt it.

    Each turn is shown with its latency. Ctrl-C stops an answer and, when nothing is being said, ends the conversation.
    """
    server = chosen_server(base_url, api_key_file, local)
    _check_usage(output, push_to_talk, turn_detection, eagerness)
    sampling = options.sampling_settings(temperature=temperature, max_tokens=max_tokens)
    if server is not None:
        from antiphon.cli.remote.given import Given

        Given.of(context).allow(REMOTE, server)
    names = {
        "generate": model or flags.CHAT_MODEL,
        "transcribe": transcription_model or flags.TRANSCRIPTION_MODEL,
        "synthesize": speech_model or flags.SPEECH_MODEL,
    }
    if server is None:
        for task, name in names.items():
            check_catalog_task(name, task)
    import asyncio

    from antiphon.cli.local.session import engine_options
    from antiphon.cli.talk.run import Setup

    setup = Setup(None if input_ is None else _recording(input_), output, push_to_talk, waterfall)
    setup.check_devices()
    settings = _settings(
        detection="manual" if push_to_talk else str(turn_detection or flags.Detection.SEMANTIC_VAD),
        eagerness=str(eagerness or flags.EagernessName.AUTO),
        instructions=flags.INSTRUCTIONS if instructions is None else instructions,
        voice=voice,
        language=language,
        model=model,
        transcription_model=transcription_model,
        **sampling,
    )
    if server is not None:
        asyncio.run(_with_server(server, setup, settings))
        return
    loaded = _loaded(names, offline, device)
    asyncio.run(_with_engine(loaded, setup, settings, engine_options(kv_memory, speculate) | {"device": device}))


def _check_usage(
    output: Path | None, push_to_talk: bool, detection: flags.Detection | None, eagerness: flags.EagernessName | None
) -> None:
    if push_to_talk and (detection or eagerness):
        raise UsageError("--push-to-talk ends turns by a key: remove --turn-detection and --eagerness")
    if eagerness and detection is flags.Detection.SERVER_VAD:
        raise UsageError("--eagerness is for --turn-detection semantic_vad")
    if output is not None:
        if output.suffix.lower() != ".wav":
            raise UsageError(f"--output writes a WAV file; end {output.name} in .wav")
        check_writable(output)


def _recording(path: Path) -> Floats:
    """The recording's samples at 16 kHz."""
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


def _settings(*, detection: str, eagerness: str, language: str | None, **values: Any) -> VoiceSettings:
    from antiphon.runtime.calls import turn_settings
    from antiphon.runtime.calls.transcription_options import TranscriptionOptions
    from antiphon.runtime.voice.settings import VoiceSettings

    turns = turn_settings.TurnSettings(
        turn_settings.TurnDetection(detection), eagerness=turn_settings.Eagerness(eagerness)
    )
    return VoiceSettings(turns=turns, transcription=TranscriptionOptions(language=language), **values)


# -- models in this process ---------------------------------------------------------------------------------------


def _loaded(names: dict[str, str], offline: bool, device: str) -> dict[str, LoadedModel]:
    """By task. Transcription is int8, as on a server."""
    from antiphon.cli.chat_models.embedded import EmbeddedModel
    from antiphon.cli.local.session import load

    made = {}
    for task, name in names.items():
        quantize = "auto" if task == "transcribe" else None
        made[task] = load(name, offline, quantize=quantize, task=task, device=device)
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
        voices.parse(settings.voice)  # an unknown one is an error with the names
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
    """The settings as a session of the Realtime API. OpenAI's names stand for the server's default models."""
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
