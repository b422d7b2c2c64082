"""Arguments of an engine's methods, checked before anything is done with them."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np

from antiphon.argument_types import Expected, check_type, shown
from antiphon.audio.samples import RawFormat
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.speech.text_feed import TextFeed
from antiphon.runtime.text.requests import Messages, Prompt
from antiphon.text.grammar_spec import GrammarSpec, is_schema_class

Options = TypeVar("Options")

#: Sampling settings of all prompts, or a list with those of each.
ParamSets = SamplingParams | Sequence[SamplingParams] | None

MESSAGE = '{"role": "user", "content": "Hello"}'


def _is_several(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _is_integer(value: object) -> bool:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _is_text(value: object, kind: Any) -> bool:
    """Return whether a value is a string, or text that comes as an iterable of this kind."""
    return isinstance(value, str) or (isinstance(value, kind) and not isinstance(value, bytes | Mapping))


def _all_strings(value: object) -> bool:
    return _is_several(value) and all(isinstance(item, str) for item in value)


def _of_type(kind: Any, words: str) -> Expected:
    return Expected(lambda value: isinstance(value, kind), words, words)


def _tested(accepts: Callable[[Any], bool], words: str) -> Expected:
    return Expected(accepts, words, words)


MODEL_FILES = _of_type(str | Path | LoadedModel, "a catalog name, a path or a hub reference")
LOADED_NAME = _of_type(str, "the name of a loaded model or adapter")
PATH = _of_type(str | Path, "a path")
SPOKEN = _tested(lambda value: _is_text(value, Iterable | TextFeed), "a string or an iterable of strings")
SPOKEN_ASYNC = _tested(
    lambda value: value is None or _is_text(value, AsyncIterable),
    "a string, an asynchronous iterator of strings, or None",
)
TOKENS = _tested(lambda value: _is_several(value) and all(map(_is_integer, value)), "a list of token ids")
#: Expected values by argument name, for arguments that have one meaning in all methods.
ARGUMENTS = {
    "adapters": _of_type(Mapping | None, "a mapping of names to paths"),
    "add_special_tokens": _of_type(bool, "True or False"),
    "cache_salt": _of_type(str, "a string"),
    "config": _of_type(EngineConfig | None, "an EngineConfig"),
    "device": _of_type(str | None, "the name of a device, such as cpu or cuda:0"),
    "grammar": _tested(
        lambda value: value is None or isinstance(value, GrammarSpec) or is_schema_class(value),
        "a GrammarSpec or a pydantic class",
    ),
    "interval": _tested(lambda value: isinstance(value, Real) and float(value) > 0, "a number of seconds above 0"),
    "limits": _of_type(MachineLimits | None, "MachineLimits"),
    "model": _of_type(str | None, "the name of a loaded model"),
    "n": _tested(_is_integer, "an integer"),
    "name": _of_type(str | None, "a string"),
    "offline": _of_type(bool, "True or False"),
    "on_rows": _tested(callable, "a function"),
    "on_update": _tested(lambda value: value is None or callable(value), "a function or None"),
    "params": _of_type(SamplingParams | None, "SamplingParams"),
    "priority": _tested(_is_integer, "a Priority"),
    "parse_special": _of_type(bool, "True or False"),
    "raw": _of_type(RawFormat | None, "a RawFormat"),
    "skip_special_tokens": _of_type(bool, "True or False"),
    "source": _tested(
        lambda value: isinstance(value, str | Path | bytes | np.ndarray) or callable(getattr(value, "read", None)),
        "a path, the bytes of a file, a file opened for reading, or a NumPy array of samples",
    ),
    "sources": _tested(_is_several, "a list of recordings"),
    "text": _of_type(str, "a string"),
    "texts": _tested(lambda value: isinstance(value, str) or _all_strings(value), "a string or a list of strings"),
    "timeout": _tested(
        lambda value: value is None or (isinstance(value, Real) and float(value) > 0),
        "a number of seconds above 0, or None",
    ),
}


def check_arguments(**given: object) -> None:
    """Reject the first of these arguments that is not what `ARGUMENTS` says."""
    for name, value in given.items():
        check_type(name, value, ARGUMENTS[name])


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Return a list of prompts from one prompt or several: strings, lists of token ids, or conversations."""
    if isinstance(prompts, str):
        return [prompts]
    if not _is_several(prompts) or (prompts and (_is_integer(prompts[0]) or isinstance(prompts[0], Mapping))):
        return [as_prompt("prompts", prompts)]
    return [as_prompt(f"prompts[{index}]", prompt) for index, prompt in enumerate(prompts)]


def as_prompt(name: str, prompt: Any) -> Prompt:
    """Return one prompt; reject a value of another type, with the name."""
    if isinstance(prompt, str):
        return prompt
    if _is_several(prompt) and prompt and isinstance(prompt[0], Mapping):
        return as_messages(name, prompt)
    if _is_several(prompt):
        wrong = next((index for index, token in enumerate(prompt) if not _is_integer(token)), None)
        if wrong is None:
            return prompt
        name, prompt = f"{name}[{wrong}]", prompt[wrong]
    raise InvalidRequestError(
        f"{name} is {shown(prompt)}; a prompt is a string, a list of token ids, or a list of messages such as {MESSAGE}"
    )


def as_messages(name: str, messages: Any) -> Messages:
    """Return a conversation whose messages have a role and a text; parts of a text are joined."""
    if not _is_several(messages) or not messages:
        raise InvalidRequestError(f"{name} is {shown(messages)}; it must be a list of messages such as {MESSAGE}")
    return [_message(f"{name}[{index}]", message) for index, message in enumerate(messages)]


def _message(name: str, message: Any) -> Mapping[str, object]:
    if not isinstance(message, Mapping):
        raise InvalidRequestError(f"{name} is {shown(message)}; it must be a message such as {MESSAGE}")
    if not isinstance(message.get("role"), str):
        raise InvalidRequestError(f"{name} has {_field(message, 'role')}; a message is such as {MESSAGE}")
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return message
    if not _is_several(content):
        raise InvalidRequestError(f"{name} has {_field(message, 'content')}; a message is such as {MESSAGE}")
    return {**message, "content": "".join(_part(f"{name}.content[{at}]", part) for at, part in enumerate(content))}


def _part(name: str, part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else None
    if not isinstance(text, str):
        raise InvalidRequestError(
            f'{name} is {shown(part)}; it must be a text such as {{"type": "text", "text": "Hello"}}'
        )
    return text


def _field(message: Mapping[str, object], name: str) -> str:
    return f"{name} {shown(message[name])}" if name in message else f"no {name}"


def params_for(prompts: Sequence[Prompt], params: ParamSets) -> Sequence[SamplingParams]:
    """Return params for each of the prompts."""
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * len(prompts)
    if not _is_several(params):
        check_arguments(params=params)
    for index, each in enumerate(params):
        check_type(f"params[{index}]", each, ARGUMENTS["params"])
    if len(params) != len(prompts):
        raise InvalidRequestError(f"{len(prompts)} prompts were given with {len(params)} sets of params")
    return params


def from_options(kind: type[Options], options: Mapping[str, Any]) -> Options:
    """Build options from their fields by name; reject an unknown name."""
    check_option_names(kind, options)
    return kind(**options)


def check_option_names(kind: type[Any], options: Iterable[str]) -> None:
    """Reject the first name that is no field of this class."""
    names = [field.name for field in fields(kind)]
    unknown = next((name for name in options if name not in names), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the options are: {', '.join(names)}"
        raise InvalidRequestError(f"there is no option {unknown!r}; {hint}")
