"""The arguments of `antiphon run`: a model and a prompt, or one of them."""

from __future__ import annotations

import shlex
import sys
from typing import NamedTuple

from antiphon.cli.chat_models.interface import SERVER_MODEL
from antiphon.cli.terminal.files import read_stdin
from antiphon.errors import InvalidRequestError, ModelNotFoundError, UsageError
from antiphon.weights.catalog.catalog import catalog, near_names
from antiphon.weights.catalog.defaults import CHAT_MODEL
from antiphon.weights.catalog.model_tasks import models_for
from antiphon.weights.catalog.references import HUB_PREFIX, is_unknown_name, path_exists

PATH_STARTS = ("/", "./", "../", "~")
QUESTION_MARKS = ("?", "\uff1f")
LONGEST_SHOWN = 60


class PromptArguments(NamedTuple):
    """Model and prompt. `is_default` is True if the user named no model."""

    model: str
    text: str
    is_default: bool


def read_arguments(model: str | None, prompt: str | None, *, names_of_server: bool) -> PromptArguments:
    """Return the meaning of the arguments; the prompt is read from standard input if omitted or `-`.

    A single argument with a space or a question mark is a prompt for the default model, unless it is a model's name,
    an existing file or begins like a path. With `names_of_server`, any other argument may be a model's name on the
    user's server; otherwise an unknown name is rejected.
    """
    if model is not None and not model.strip():
        raise UsageError("the first argument is empty; it is a model or a prompt")
    if model is not None and prompt is None and _is_prompt(model):
        model, prompt = None, model
    if model is not None and not names_of_server and is_unknown_name(model):
        raise _unknown(model, prompt)
    default = SERVER_MODEL if names_of_server else CHAT_MODEL
    return PromptArguments(model or default, _text(prompt), model is None)


def _is_prompt(argument: str) -> bool:
    """Return whether an only argument is a prompt rather than a model's name or path."""
    if argument == "-":
        return True
    if argument.startswith((HUB_PREFIX, *PATH_STARTS)) or argument.lower() in catalog() or path_exists(argument):
        return False
    return any(mark.isspace() or mark in QUESTION_MARKS for mark in argument)


def _unknown(word: str, prompt: str | None) -> ModelNotFoundError:
    """Build the error for a first argument that names no model, with the command that takes it as a question."""
    if prompt in (None, "-"):
        command = f"antiphon run {CHAT_MODEL} {shlex.quote(word)}"
    else:
        sentence = f"{word} {prompt}"
        command = f'antiphon run "{sentence if len(sentence) <= LONGEST_SHOWN else f"{word} …"}"'
    near = near_names(word.lower(), models_for("generate"))
    models = f"nearest models: {', '.join(near)}" if near else "`antiphon list` shows the models"
    return ModelNotFoundError(f"{word!r} is no known model ({models}); as a question: {command}")


def _text(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if sys.stdin.isatty():
        raise UsageError('no prompt: give a question, as in antiphon run "Name a bird.", or text on standard input')
    text = read_stdin()
    if not text.strip():
        raise InvalidRequestError("the prompt on standard input is empty")
    return text
