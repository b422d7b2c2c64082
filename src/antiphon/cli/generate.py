"""`antiphon run` and `antiphon chat`: text from a model, in the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import options
from antiphon.cli.command import usage_errors
from antiphon.cli.remote.address import chosen_server
from antiphon.errors import AntiphonError, InvalidRequestError, UsageError

if TYPE_CHECKING:
    from antiphon.runtime.loading import LoadedModel

HELP_IN_CHAT = (
    "/reset forgets the conversation, /system TEXT sets the system message, /exit leaves; Ctrl-C stops an answer"
)


def run(
    context: typer.Context,
    model: options.ModelArgument,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="Prompt; standard input if omitted or '-'.", show_default=False),
    ] = None,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.Repetition = 1.0,
    presence_penalty: options.Presence = 0.0,
    frequency_penalty: options.Frequency = 0.0,
    seed: options.Seed = 0,
    max_tokens: options.MaxTokens = 256,
    stop: options.Stop = None,
    n: Annotated[int, typer.Option("--n", help="Number of answers.", min=1)] = 1,
    system: options.System = None,
    raw: options.Raw = False,
    json_schema: options.JsonSchema = None,
    regex: options.Regex = None,
    choice: options.Choice = None,
    kv_memory: options.KVMemory = options.DEFAULT_KV_MEGABYTES,
    kv_type: options.KVType = options.PageType.FP16,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    trace: options.Trace = None,
    profile: options.Profile = False,
    no_record: options.NoRecord = False,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Answer one prompt. Text streams to stdout, timings to stderr."""
    server = chosen_server(base_url, api_key_file, local)
    text = _prompt_text(prompt)
    if server is not None:
        from antiphon.cli.remote.generate import run_remotely

        run_remotely(context, server, text)
        return
    from antiphon.engine.sampling_params import SamplingParams

    with usage_errors():
        params = SamplingParams(
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            seed=seed,
            max_tokens=max_tokens,
            stop=tuple(stop or ()),
        )
    grammar = options.grammar_of(json_schema, regex, choice)
    from antiphon.cli.session import engine_for, load, print_stream, report_line

    loaded = load(model, offline, no_repack, quantize, task="generate")
    prompt_ids = _prompt_ids(loaded, text, system, raw)
    with engine_for(loaded, kv_memory, kv_type, record=not no_record, record_requests=trace is not None) as engine:
        if profile:
            engine.start_profile()
        streams = engine.stream_samples(prompt_ids, params, n=n, grammar=grammar)
        for stream in streams:
            print_stream(stream)
            print(report_line(loaded, stream.completion()), file=sys.stderr)
        if trace is not None:
            engine.write_trace(trace)
        if profile:
            print("\n".join(engine.profile_lines()), file=sys.stderr)
    if any(stream.completion().finish_reason == "cancelled" for stream in streams):
        raise typer.Exit(130)


def chat(
    context: typer.Context,
    model: options.ModelArgument,
    temperature: options.Temperature = 0.7,
    top_p: options.TopP = 0.9,
    top_k: options.TopK = 0,
    seed: options.Seed = 0,
    max_tokens: options.MaxTokens = 1024,
    system: options.System = None,
    kv_memory: options.KVMemory = options.DEFAULT_KV_MEGABYTES,
    kv_type: options.KVType = options.PageType.FP16,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    no_record: options.NoRecord = False,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Chat with a model in the terminal."""
    server = chosen_server(base_url, api_key_file, local)
    if server is not None:
        from antiphon.cli.remote.generate import print_answer, remote_model

        remote, settings = remote_model(context, server)
        _greet(f"{remote.name} at {server.url}")
        _converse(lambda messages: print_answer(remote.answer(messages, settings)), system)
        return
    from antiphon.engine.sampling_params import SamplingParams

    with usage_errors():
        params = SamplingParams(temperature, top_k, top_p, seed=seed, max_tokens=max_tokens)
    from antiphon.cli.session import engine_for, load

    loaded = load(model, offline, no_repack, quantize, task="generate")
    if loaded.chat_template is None:
        raise InvalidRequestError(f"model {loaded.name!r} has no chat template; use `antiphon run {model} --raw`")
    _greet(loaded.name)
    with engine_for(loaded, kv_memory, kv_type, record=not no_record) as engine:
        from antiphon.cli.session import print_stream
        from antiphon.runtime.conversation import Conversation

        def respond(messages: list[dict[str, str]]) -> str:
            return print_stream(engine.stream(Conversation(loaded, messages=messages).prompt_ids(), params))

        _converse(respond, system)


def _greet(name: str) -> None:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (line editing and history in input())
    print(f"{name}: {HELP_IN_CHAT}", file=sys.stderr)


def _converse(respond: Callable[[list[dict[str, str]]], str], system: str | None) -> None:
    """Read lines until the end of input. Ctrl-C at the prompt clears the line; during an answer it ends the answer."""
    messages: list[dict[str, str]] = []
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            continue
        command, _, argument = line.partition(" ")
        if not line:
            continue
        if command == "/exit":
            return
        if command == "/reset":
            messages.clear()
            print("(forgotten)", file=sys.stderr)
            continue
        if command == "/system":
            system = argument.strip() or None
            messages.clear()
            print("(system message set; conversation forgotten)", file=sys.stderr)
            continue
        if command.startswith("/"):
            print(f"(unknown command {command}; {HELP_IN_CHAT})", file=sys.stderr)
            continue
        messages.append({"role": "user", "content": line})
        first = [{"role": "system", "content": system}] if system else []
        try:
            answer = respond(first + messages)
        except AntiphonError as error:
            messages.pop()
            print(f"antiphon: {error}", file=sys.stderr)
            continue
        messages.append({"role": "assistant", "content": answer})


def _prompt_text(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if sys.stdin.isatty():
        raise UsageError("no prompt: give one after the model's name, or on standard input")
    text = sys.stdin.read()
    if not text.strip():
        raise InvalidRequestError("the prompt on standard input is empty")
    return text


def _prompt_ids(loaded: LoadedModel, text: str, system: str | None, raw: bool) -> list[int]:
    from antiphon.runtime.conversation import Conversation

    if raw or loaded.chat_template is None:
        if system:
            raise UsageError("--system needs a chat template, which --raw and base models do not use")
        return loaded.tokenizer.encode(text)
    conversation = Conversation(loaded, system)
    conversation.add_user(text)
    return conversation.prompt_ids()
