"""`antiphon run` and `antiphon chat`: text from a model, in the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.remote.address import chosen_server
from antiphon.cli.terminal.files import read_stdin
from antiphon.errors import InvalidRequestError, UsageError

if TYPE_CHECKING:
    from antiphon.runtime.loading.loading import LoadedModel


def run(
    context: typer.Context,
    model: options.ModelArgument,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="Prompt; standard input if omitted or '-'.", show_default=False),
    ] = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    repetition_penalty: options.Repetition = None,
    presence_penalty: options.Presence = None,
    frequency_penalty: options.Frequency = None,
    seed: options.SampleSeed = None,
    max_tokens: options.MaxTokens = 256,
    stop: options.Stop = None,
    n: Annotated[int, typer.Option("--n", help="Number of answers.", min=1)] = 1,
    system: options.System = None,
    raw: options.Raw = False,
    json_schema: options.JsonSchema = None,
    regex: options.Regex = None,
    choice: options.Choice = None,
    device: options.Device = "auto",
    kv_memory: options.KVMemory = None,
    kv_type: options.KVType = None,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    speculate: options.RemoteSpeculate = None,
    adapter: options.Adapter = None,
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
    if server is None:
        options.check_speculate(speculate)
    text = _prompt_text(prompt)
    settings = options.sampling_settings(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        seed=seed,
        max_tokens=max_tokens,
        stop=stop,
        speculate=None if server is None else speculate,
    )
    if server is not None:
        from antiphon.cli.text.remote_run import run_remotely

        run_remotely(context, server, text, settings)
        return
    grammar = options.grammar_of(json_schema, regex, choice)
    from antiphon.cli.local.session import adapted_name, engine_for, load, print_stream, report_line

    loaded = load(model, offline, no_repack, quantize, task="generate", device=device)
    prompt_ids = _prompt_ids(loaded, text, system, raw)
    recorded: dict[str, Any] = dict(record=not no_record, record_requests=trace is not None)
    with engine_for(loaded, kv_memory, kv_type, speculate=speculate, **recorded) as engine:
        name = adapted_name(engine, loaded, adapter)
        if profile:
            engine.start_profile()
        params = loaded.sampling.params(**settings)
        streams = engine.stream_samples(prompt_ids, params, n=n, grammar=grammar, model=name)
        for stream in streams:
            print_stream(stream)
            print(f"{report_line(loaded, stream)}; {loaded.sampling.describe(settings)}", file=sys.stderr)
        if trace is not None:
            engine.write_trace(trace)
        if profile:
            print("\n".join(engine.profile_lines()), file=sys.stderr)
    if any(stream.completion().finish_reason == "cancelled" for stream in streams):
        raise typer.Exit(130)


def chat(
    context: typer.Context,
    model: options.ModelArgument,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    repetition_penalty: options.Repetition = None,
    seed: options.SampleSeed = None,
    max_tokens: options.MaxTokens = 1024,
    system: options.System = None,
    stats: Annotated[bool, typer.Option("--stats", help="Show the speed and the seed after each answer.")] = False,
    device: options.Device = "auto",
    kv_memory: options.KVMemory = None,
    kv_type: options.KVType = None,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    speculate: options.RemoteSpeculate = None,
    adapter: options.Adapter = None,
    no_record: options.NoRecord = False,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Chat with a model in the terminal. /help lists the commands."""
    server = chosen_server(base_url, api_key_file, local)
    if server is None:
        options.check_speculate(speculate)
    settings = options.sampling_settings(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        max_tokens=max_tokens,
        speculate=None if server is None else speculate,
    )
    from antiphon.cli.chat.loop import converse
    from antiphon.cli.chat.state import ChatState

    state = ChatState(system, settings, shows_stats=stats)
    if server is not None:
        from antiphon.cli.text.remote_run import remote_model

        remote = remote_model(context, server)
        print(f"{remote.name} at {server.url}", file=sys.stderr)
        converse(remote, state)
        return
    from antiphon.cli.local.session import adapted_name, engine_for, load

    loaded = load(model, offline, no_repack, quantize, task="generate", device=device)
    from antiphon.cli.chat_models.embedded import EmbeddedModel

    EmbeddedModel.check(loaded)
    print(f"{loaded.name}: {loaded.sampling.describe(settings)}", file=sys.stderr)
    with engine_for(loaded, kv_memory, kv_type, speculate=speculate, record=not no_record) as engine:
        converse(EmbeddedModel(engine, loaded, adapted_name(engine, loaded, adapter)), state)


def _prompt_text(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if sys.stdin.isatty():
        raise UsageError("no prompt: give one after the model's name, or on standard input")
    text = read_stdin()
    if not text.strip():
        raise InvalidRequestError("the prompt on standard input is empty")
    return text


def _prompt_ids(loaded: LoadedModel, text: str, system: str | None, raw: bool) -> list[int]:
    from antiphon.cli.chat.state import ChatState
    from antiphon.runtime.text.requests import encode_prompt

    if raw or loaded.chat_template is None:
        if system:
            raise UsageError("--system needs a chat template, which --raw and base models do not use")
        return encode_prompt(loaded, text)
    return encode_prompt(loaded, ChatState(system).prompt(text))
