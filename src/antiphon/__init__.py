"""Antiphon: one inference engine for language and speech."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

#: The version of the package; pyproject.toml reads this line.
__version__ = "0.2.0"

if TYPE_CHECKING:  # a type checker takes `as` for a re-export
    from antiphon.audio.samples import Encoding as Encoding
    from antiphon.audio.samples import Floats as Floats
    from antiphon.audio.samples import RawFormat as RawFormat
    from antiphon.engine.request import FinishReason as FinishReason
    from antiphon.engine.request import Priority as Priority
    from antiphon.engine.sampling_params import SamplingParams as SamplingParams
    from antiphon.engine.telemetry import StepRecord as StepRecord
    from antiphon.errors import AntiphonError as AntiphonError
    from antiphon.errors import AudioError as AudioError
    from antiphon.errors import CheckpointError as CheckpointError
    from antiphon.errors import ContextLengthError as ContextLengthError
    from antiphon.errors import DeviceError as DeviceError
    from antiphon.errors import DownloadCancelledError as DownloadCancelledError
    from antiphon.errors import EngineError as EngineError
    from antiphon.errors import FetchError as FetchError
    from antiphon.errors import HomeError as HomeError
    from antiphon.errors import InvalidRequestError as InvalidRequestError
    from antiphon.errors import LoadCancelledError as LoadCancelledError
    from antiphon.errors import LoadTimeoutError as LoadTimeoutError
    from antiphon.errors import MemoryBudgetError as MemoryBudgetError
    from antiphon.errors import MemoryBusyError as MemoryBusyError
    from antiphon.errors import MissingDependencyError as MissingDependencyError
    from antiphon.errors import ModelInUseError as ModelInUseError
    from antiphon.errors import ModelNotFoundError as ModelNotFoundError
    from antiphon.errors import OutOfDeviceMemoryError as OutOfDeviceMemoryError
    from antiphon.errors import OverloadedError as OverloadedError
    from antiphon.errors import TemplateError as TemplateError
    from antiphon.errors import TokenizerError as TokenizerError
    from antiphon.errors import TooManyTokensError as TooManyTokensError
    from antiphon.errors import UnrecordableError as UnrecordableError
    from antiphon.errors import UnsupportedError as UnsupportedError
    from antiphon.errors import UsageError as UsageError
    from antiphon.ops.program.profile import MachineLimits as MachineLimits
    from antiphon.runtime.calls.events import TextDelta as TextDelta
    from antiphon.runtime.calls.hearing import Cleared as Cleared
    from antiphon.runtime.calls.hearing import CommitEmpty as CommitEmpty
    from antiphon.runtime.calls.hearing import HearingEnded as HearingEnded
    from antiphon.runtime.calls.hearing import HearingEvent as HearingEvent
    from antiphon.runtime.calls.hearing import IdleTimeout as IdleTimeout
    from antiphon.runtime.calls.hearing import SettingsRejected as SettingsRejected
    from antiphon.runtime.calls.hearing import SpeechStarted as SpeechStarted
    from antiphon.runtime.calls.hearing import TurnDropped as TurnDropped
    from antiphon.runtime.calls.hearing import TurnEnded as TurnEnded
    from antiphon.runtime.calls.hearing import TurnFailed as TurnFailed
    from antiphon.runtime.calls.hearing import TurnGuess as TurnGuess
    from antiphon.runtime.calls.hearing import TurnLooked as TurnLooked
    from antiphon.runtime.calls.hearing import TurnMarks as TurnMarks
    from antiphon.runtime.calls.hearing import TurnResumed as TurnResumed
    from antiphon.runtime.calls.hearing import TurnText as TurnText
    from antiphon.runtime.calls.hearing import TurnTranscript as TurnTranscript
    from antiphon.runtime.calls.speech import SpeechChunk as SpeechChunk
    from antiphon.runtime.calls.speech import SpeechStats as SpeechStats
    from antiphon.runtime.calls.speech import TimedWord as TimedWord
    from antiphon.runtime.calls.speech_options import SpeechOptions as SpeechOptions
    from antiphon.runtime.calls.transcript import LiveUpdate as LiveUpdate
    from antiphon.runtime.calls.transcript import Segment as Segment
    from antiphon.runtime.calls.transcript import Transcript as Transcript
    from antiphon.runtime.calls.transcript import TranscriptEvent as TranscriptEvent
    from antiphon.runtime.calls.transcript import TranscriptionStats as TranscriptionStats
    from antiphon.runtime.calls.transcript import TranscriptProgress as TranscriptProgress
    from antiphon.runtime.calls.transcript import Word as Word
    from antiphon.runtime.calls.transcription_options import TranscriptionOptions as TranscriptionOptions
    from antiphon.runtime.calls.turn_settings import Eagerness as Eagerness
    from antiphon.runtime.calls.turn_settings import HearingOptions as HearingOptions
    from antiphon.runtime.calls.turn_settings import TurnDetection as TurnDetection
    from antiphon.runtime.calls.turn_settings import TurnSettings as TurnSettings
    from antiphon.runtime.frontend.async_engine import AsyncEngine as AsyncEngine
    from antiphon.runtime.frontend.engine import Engine as Engine
    from antiphon.runtime.frontend.profile import ModelProfile as ModelProfile
    from antiphon.runtime.frontend.streams import LiveSession as LiveSession
    from antiphon.runtime.frontend.streams import Stream as Stream
    from antiphon.runtime.frontend.streams import Synthesis as Synthesis
    from antiphon.runtime.loading.adapters import LoadedAdapter as LoadedAdapter
    from antiphon.runtime.loading.config import EngineConfig as EngineConfig
    from antiphon.runtime.loading.loading import LoadedModel as LoadedModel
    from antiphon.runtime.speech.stream import AsyncSynthesis as AsyncSynthesis
    from antiphon.runtime.speech.text_feed import TextFeed as TextFeed
    from antiphon.runtime.text.output import Completion as Completion
    from antiphon.runtime.text.output import Timings as Timings
    from antiphon.runtime.text.requests import Messages as Messages
    from antiphon.runtime.text.requests import Prompt as Prompt
    from antiphon.runtime.text.requests import RequestOptions as RequestOptions
    from antiphon.runtime.text.stream import AsyncStream as AsyncStream
    from antiphon.runtime.transcription.sound_source import SoundSource as SoundSource
    from antiphon.runtime.transcription.stream import AsyncLiveSession as AsyncLiveSession
    from antiphon.runtime.transcription.stream import AsyncTranscription as AsyncTranscription
    from antiphon.runtime.voice.hearing_stream import AsyncHearing as AsyncHearing
    from antiphon.text.grammar_spec import Grammar as Grammar
    from antiphon.text.grammar_spec import GrammarSpec as GrammarSpec
    from antiphon.text.grammar_spec import JsonSchema as JsonSchema
    from antiphon.text.grammar_spec import SchemaClass as SchemaClass

#: Public names by module. Each is imported on first use, so that the command line's help needs no tensor library.
_MODULES = {
    "antiphon.audio.samples": "Encoding Floats RawFormat",
    "antiphon.engine.request": "FinishReason Priority",
    "antiphon.engine.sampling_params": "SamplingParams",
    "antiphon.engine.telemetry": "StepRecord",
    "antiphon.errors": (
        "AntiphonError AudioError CheckpointError ContextLengthError DeviceError DownloadCancelledError "
        "EngineError FetchError HomeError InvalidRequestError LoadCancelledError LoadTimeoutError "
        "MemoryBudgetError MemoryBusyError MissingDependencyError ModelInUseError ModelNotFoundError "
        "OutOfDeviceMemoryError OverloadedError TemplateError TokenizerError TooManyTokensError UnrecordableError "
        "UnsupportedError UsageError"
    ),
    "antiphon.ops.program.profile": "MachineLimits",
    "antiphon.runtime.calls.events": "TextDelta",
    "antiphon.runtime.calls.hearing": (
        "Cleared CommitEmpty HearingEnded HearingEvent IdleTimeout SettingsRejected SpeechStarted TurnDropped "
        "TurnEnded TurnFailed TurnGuess TurnLooked TurnMarks TurnResumed TurnText TurnTranscript"
    ),
    "antiphon.runtime.calls.speech": "SpeechChunk SpeechStats TimedWord",
    "antiphon.runtime.calls.speech_options": "SpeechOptions",
    "antiphon.runtime.calls.transcript": (
        "LiveUpdate Segment Transcript TranscriptEvent TranscriptProgress TranscriptionStats Word"
    ),
    "antiphon.runtime.calls.transcription_options": "TranscriptionOptions",
    "antiphon.runtime.calls.turn_settings": "Eagerness HearingOptions TurnDetection TurnSettings",
    "antiphon.runtime.frontend.async_engine": "AsyncEngine",
    "antiphon.runtime.frontend.engine": "Engine",
    "antiphon.runtime.frontend.profile": "ModelProfile",
    "antiphon.runtime.frontend.streams": "LiveSession Stream Synthesis",
    "antiphon.runtime.loading.adapters": "LoadedAdapter",
    "antiphon.runtime.loading.config": "EngineConfig",
    "antiphon.runtime.loading.loading": "LoadedModel",
    "antiphon.runtime.speech.stream": "AsyncSynthesis",
    "antiphon.runtime.speech.text_feed": "TextFeed",
    "antiphon.runtime.text.output": "Completion Timings",
    "antiphon.runtime.text.requests": "Messages Prompt RequestOptions",
    "antiphon.runtime.text.stream": "AsyncStream",
    "antiphon.runtime.transcription.sound_source": "SoundSource",
    "antiphon.runtime.transcription.stream": "AsyncLiveSession AsyncTranscription",
    "antiphon.runtime.voice.hearing_stream": "AsyncHearing",
    "antiphon.text.grammar_spec": "Grammar GrammarSpec JsonSchema SchemaClass",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers read only a literal list, and would hide all names that a list computed here has
    __all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
