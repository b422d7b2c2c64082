"""`antiphon run` and `antiphon chat` with a running server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.chat_models.remote import CANCELLED, RemoteAnswer, RemoteModel
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client
from antiphon.cli.remote.given import Given
from antiphon.errors import AntiphonError, UsageError

SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "speculate",
)
FORMS = ("json_schema", "regex", "choice")
RUN_OPTIONS = ("model", "prompt", "max_tokens", "n", "system", "raw", *SAMPLING, *FORMS)
CHAT_OPTIONS = ("model", "max_tokens", "system", "stats", *SAMPLING)


def run_remotely(context: typer.Context, server: ServerAddress, text: str, settings: Mapping[str, Any]) -> None:
    """`antiphon run`: one prompt, its answer streamed. Settings that the user did not give are the server's."""
    given = Given.of(context)
    given.allow(RUN_OPTIONS, server)
    values = given.every
    fields = _form(values["json_schema"], values["regex"], values["choice"])
    if values["n"] != 1:
        fields["n"] = values["n"]
    model = RemoteModel(Client(server), values["model"])
    if values["raw"]:
        if values["system"]:
            raise UsageError("--system needs a chat template, which --raw turns off; remove one of them")
        answer = model.complete(text, settings, **fields)
    else:
        system = [{"role": "system", "content": values["system"]}] if values["system"] else []
        answer = model.answer([*system, {"role": "user", "content": text}], settings, **fields)
    _print_samples(answer, values["n"])
    stats = answer.stats()
    print(stats.line(), file=sys.stderr)
    if stats.finish_reason == CANCELLED:
        raise typer.Exit(130)


def _form(json_schema: str | None, regex: str | None, choice: list[str] | None) -> dict[str, Any]:
    """The fields that ask for an answer of a given form. JSON schemas are standard, the others are ours and vLLM's."""
    flags = {"--json-schema": json_schema, "--regex": regex, "--choice": choice}
    given = [flag for flag, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other: an answer has one form")
    if json_schema:
        named = {"name": "answer", "schema": options.schema_of(json_schema), "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if regex:
        return {"guided_regex": regex}
    return {"guided_choice": choice} if choice else {}


def _print_samples(answer: RemoteAnswer, count: int) -> None:
    """The first sample as it streams, then the others. Ctrl-C closes the connection and keeps what was printed."""
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
        print()  # the error begins on a line of its own
        raise
    print(flush=True)  # before the figures on standard error
    for pieces in later.values():
        print("".join(pieces), flush=True)


def remote_model(context: typer.Context, server: ServerAddress) -> RemoteModel:
    """The model that `antiphon chat` was called with."""
    given = Given.of(context)
    given.allow(CHAT_OPTIONS, server)
    return RemoteModel(Client(server), given.every["model"])
