"""Generate docs/python-api.md from signatures and docstrings: run `python tests/support/python_docs.py`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from pathlib import Path
from typing import Any, get_args, is_typeddict

from antiphon import (
    AsyncEngine,
    AsyncHearing,
    AsyncLiveSession,
    AsyncStream,
    AsyncSynthesis,
    AsyncTranscription,
    Completion,
    Eagerness,
    Engine,
    EngineConfig,
    FinishReason,
    GrammarSpec,
    HearingEvent,
    HearingOptions,
    LiveSession,
    LiveUpdate,
    Priority,
    RawFormat,
    RequestOptions,
    SamplingParams,
    Segment,
    SpeechChunk,
    SpeechOptions,
    SpeechStats,
    Stream,
    Synthesis,
    TextDelta,
    TextFeed,
    TimedWord,
    Timings,
    Transcript,
    TranscriptionOptions,
    TranscriptionStats,
    TranscriptProgress,
    TurnDetection,
    TurnMarks,
    TurnSettings,
    Word,
    errors,
)  # fmt: skip

PATH = Path(__file__).parents[2] / "docs" / "python-api.md"
BEGINNING = """\
# Python API

Signatures and docstrings, as the code has them. [python.md](python.md) is the guide. This file is generated: run
`python tests/support/python_docs.py` after a change.

Every name on this page is imported from `antiphon`, as in `from antiphon import Engine, SamplingParams`. The package
has type hints for type checkers (PEP 561).
"""
SECTIONS: dict[str, tuple[type, ...]] = {
    "Engines": (Engine, AsyncEngine, EngineConfig),
    "Text": (
        SamplingParams, GrammarSpec, Priority, RequestOptions, Completion, FinishReason, Timings, TextDelta, Stream,
        AsyncStream,
    ),
    "Transcription": (
        TranscriptionOptions, RawFormat, Transcript, Segment, Word, TranscriptionStats, TranscriptProgress,
        AsyncTranscription, LiveSession, AsyncLiveSession, LiveUpdate,
    ),
    "Hearing": (
        HearingOptions, TurnSettings, TurnDetection, Eagerness, AsyncHearing, TurnMarks, *get_args(HearingEvent),
    ),
    "Speech": (SpeechOptions, TextFeed, Synthesis, AsyncSynthesis, SpeechChunk, TimedWord, SpeechStats),
}  # fmt: skip
#: Other public names: aliases of types, and classes whose attributes are for the engine itself.
OTHERS = {
    "Encoding": "Name of a sample encoding: `u8`, `s16le`, `f32le` and others",
    "Floats": "NumPy array of 32-bit floats",
    "Grammar": "`GrammarSpec`, or a class with a JSON schema",
    "HearingEvent": "Any of the events of `AsyncHearing`",
    "JsonSchema": "JSON schema as a mapping, as text, or as a `SchemaClass`",
    "LoadedAdapter": "LoRA adapter, returned by `load_adapter`; its `name` selects it as `model`",
    "LoadedModel": "Model with its tokenizer and template, returned by `load`; another engine can `load` it again",
    "MachineLimits": "Memory bandwidth and arithmetic speed of a machine, measured by `start_profile`",
    "Messages": 'Sequence of messages, each a mapping such as `{"role": "user", "content": "Hello"}`',
    "ModelProfile": "Times of a model's instructions, returned by `profiles`",
    "Prompt": "Text, `Messages`, or a sequence of token ids",
    "SchemaClass": "Class with a method `model_json_schema`, such as a subclass of pydantic's `BaseModel`",
    "SoundSource": "Path, bytes of a file, file opened for reading, or NumPy array of samples at 16 kHz",
    "StepRecord": "Times and sizes of one step, returned by `step_records`",
    "TranscriptEvent": "`TranscriptProgress` or `Transcript`",
}
#: Public names that only the engine itself calls: omitted from the reference.
INTERNAL = {
    "AsyncLiveSession.put", "AsyncReader.accepted", "AsyncReader.fail", "AsyncReader.put", "AsyncStream.output",
    "AsyncSynthesis.append", "AsyncSynthesis.end_text", "AsyncSynthesis.feed", "AsyncSynthesis.put",
    "AsyncTranscription.finish", "AsyncTranscription.push", "AsyncTranscription.put", "AsyncTranscription.room",
    "EngineConfig.configured", "EngineConfig.make_policy", "EngineConfig.open_device", "EngineConfig.scheduler",
    "EngineConfig.sizes", "EngineConfig.slab_size", "EngineConfig.speculation", "EngineConfig.weight_options",
    "FinishReason.state", "FrontEnd.embedding_requests", "FrontEnd.samples", "FrontEnd.speaker",
    "FrontEnd.transcriber", "GrammarSpec.kind", "GrammarSpec.schema_text", "LiveSession.put",
    "SamplingParams.edits_logits", "SamplingParams.has_penalties", "Stream.output", "TextFeed.listen",
}  # fmt: skip
#: Classes created by an engine: their constructors are omitted from the reference.
NOT_CONSTRUCTED = {
    Stream, AsyncStream, Synthesis, AsyncSynthesis, AsyncTranscription, LiveSession, AsyncLiveSession, AsyncHearing,
}  # fmt: skip
WIDTH = 100


def python_docs() -> str:
    parts = [BEGINNING]
    for title, classes in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_class(one) for one in classes]
    parts.append("## Other names\n")
    parts.append("| name | |\n|---|---|")
    parts += [f"| `{name}` | {meaning} |" for name, meaning in OTHERS.items()]
    parts.append("\n## Errors\n")
    parts.append("All of these are subclasses of `AntiphonError`.\n")
    parts.append("| error | |\n|---|---|")
    for name, one in vars(errors).items():
        if isinstance(one, type) and issubclass(one, errors.AntiphonError):
            parts.append(f"| `{name}` | {inspect.getdoc(one)} |")
    return "\n".join(parts) + "\n"


def _class(one: type) -> str:
    parts = [f"### {one.__name__}\n", _docstring(one)]
    if dataclasses.is_dataclass(one):
        parts.append("| field | type | default |\n|---|---|---|")
        parts += [_field(field) for field in dataclasses.fields(one)]
        parts.append("")
    elif issubclass(one, enum.Enum):
        parts.append(", ".join(f"`{member.name}` = {member.value}" for member in one) + "\n")
    elif is_typeddict(one):
        parts.append("| key | type |\n|---|---|")
        parts += [f"| `{name}` | `{_type(hint.__forward_arg__)}` |" for name, hint in one.__annotations__.items()]
        parts.append("")
    elif one not in NOT_CONSTRUCTED:
        parts.append(_block(one.__name__, inspect.signature(one.__init__)))  # type: ignore[misc]
    for name, member in members(one):
        parts.append(_member(name, member))
    return "\n".join(parts)


def is_internal(one: type, base: type, name: str) -> bool:
    """Return whether an attribute of a class, defined in `base`, is omitted from the reference."""
    return name.startswith("_") or bool({f"{one.__name__}.{name}", f"{base.__name__}.{name}"} & INTERNAL)


def members(one: type) -> list[tuple[str, Any]]:
    """Return public methods and properties by name, the class's own first, then inherited ones."""
    found: dict[str, Any] = {}
    for base in one.__mro__:
        if base.__module__.startswith("antiphon."):
            for name, member in vars(base).items():
                is_known = isinstance(member, property) or inspect.isfunction(member)
                if is_known and not is_internal(one, base, name):
                    found.setdefault(name, member)
    return list(found.items())


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
        return f"#### `{name}: {returned}`\n\n{_docstring(member)}"
    prefix = "await " if inspect.iscoroutinefunction(member) else ""
    return f"#### `{prefix}{name}()`\n\n{_block(name, inspect.signature(member))}\n{_docstring(member)}"


def _field(field: dataclasses.Field[Any]) -> str:
    default = "required"
    if field.default is not dataclasses.MISSING:
        default = f"`{_value(field.default)}`"
    elif field.default_factory is not dataclasses.MISSING:
        default = f"`{_value(field.default_factory())}`"
    return f"| `{field.name}` | `{_type(field.type)}` | {default} |"


def _type(annotation: Any) -> str:
    return str(annotation).replace("|", "\\|")


def _value(value: Any) -> str:
    if dataclasses.is_dataclass(value) and value == type(value)():
        return f"{type(value).__name__}()"
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def _block(name: str, signature: inspect.Signature) -> str:
    """Format a signature as a code block, on one line if it fits, else with a line per parameter."""
    parameters: list[str] = []
    has_star = False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "after_step"):  # after_step is for the asynchronous engine's own use
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            has_star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            parameters.append("*")
            has_star = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = f"{stars}{parameter.name}: {parameter.annotation}"
        parameters.append(text if parameter.default is parameter.empty else f"{text} = {_value(parameter.default)}")
    has_result = signature.return_annotation not in (None, "None", inspect.Signature.empty)
    returned = f" -> {signature.return_annotation}" if has_result else ""
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in parameters) + f"){returned}"
    return f"```text\n{line}\n```\n"


def _docstring(one: Any) -> str:
    return (inspect.getdoc(one) or "") + "\n"


def missing_docstrings() -> list[str]:
    """Return the names of public classes and methods in the reference that have no docstring."""
    missing = []
    for one in (one for classes in SECTIONS.values() for one in classes):
        if not (one.__doc__ or "").strip() or (one.__doc__ or "").startswith(f"{one.__name__}("):
            missing.append(one.__name__)
        missing += [f"{one.__name__}.{name}" for name, member in members(one) if not inspect.getdoc(member)]
    return missing


if __name__ == "__main__":
    PATH.write_text(python_docs(), encoding="utf-8")
