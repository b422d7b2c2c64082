"""`antiphon run` with a running server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from antiphon.cli.arguments import answer_options
from antiphon.cli.chat.state import ChatState
from antiphon.cli.chat_models.remote import CANCELLED, RemoteAnswer, RemoteModel
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client
from antiphon.cli.text.prompt_arguments import PromptArguments
from antiphon.errors import AntiphonError, UsageError


@dataclass(frozen=True)
class RemoteRun:
    """Prompt for a model on a server, and the form and number of its answers."""

    server: ServerAddress
    asked: PromptArguments
    form: answer_options.AnswerForm
    count: int
    system: str | None
    is_raw: bool

    def print_answers(self, settings: Mapping[str, Any]) -> None:
        """Stream the answers. Settings that are None are left to the server."""
        fields = _fields(self.form)
        if self.count != 1:
            fields["n"] = self.count
        model = RemoteModel(Client(self.server), self.asked.model)
        if self.is_raw:
            if self.system:
                raise UsageError("--system needs a chat template, which --raw turns off; remove one of them")
            answer = model.complete(self.asked.text, settings, **fields)
        else:
            answer = model.answer(ChatState(self.system).prompt(self.asked.text), settings, **fields)
        _print_samples(answer, self.count)
        stats = answer.stats()
        print(stats.line(), file=sys.stderr)
        if stats.finish_reason == CANCELLED:
            raise typer.Exit(130)


def _fields(form: answer_options.AnswerForm) -> dict[str, Any]:
    """Return the request fields of the required form. JSON schemas are standard, the others Antiphon's and vLLM's."""
    given = [f"--{name.replace('_', '-')}" for name, value in vars(form).items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other: an answer has one form")
    if form.json_schema:
        named = {"name": "answer", "schema": form.schema(), "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if form.regex:
        return {"guided_regex": form.regex}
    return {"guided_choice": form.choice} if form.choice else {}


def _print_samples(answer: RemoteAnswer, count: int) -> None:
    """Print the first sample as it streams, then the others.

    Ctrl-C closes the connection and keeps the printed text.
    """
    later: dict[int, list[str]] = {index: [] for index in range(1, count)}
    try:
        for index, text in answer.samples():
            if index in later:
                later[index].append(text)
            else:
                print(text, end="", flush=True)
    except KeyboardInterrupt:
        answer.cancel()
        print(" (stopped)", end="", file=sys.stderr, flush=True)
    except AntiphonError:
        print()  # puts the error on its own line
        raise
    print(flush=True)  # ends the line before the figures on standard error
    for pieces in later.values():
        print("".join(pieces), flush=True)
