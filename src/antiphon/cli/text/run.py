"""`antiphon run`: the answer to a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.remote.options import ServerOptions
from antiphon.cli.terminal.files import read_stdin
from antiphon.errors import InvalidRequestError, UsageError

if TYPE_CHECKING:
    from antiphon.runtime.frontend.streams import Stream
    from antiphon.runtime.loading.loading import LoadedModel


def run(
    context: typer.Context,
    model: model_options.ModelArgument,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Prompt; standard input if omitted or '-'.")
    ] = None,
    *,
    sampling: answer_options.Sampling,
    seed: answer_options.AnswerSeed = None,
    max_tokens: answer_options.MaxTokens = 256,
    stop: answer_options.Stop = None,
    n: Annotated[int, typer.Option(help="Number of answers.", min=1)] = 1,
    system: answer_options.System = None,
    raw: answer_options.Raw = False,
    form: answer_options.AnswerForm,
    engine: model_options.EngineOptions,
    speculate: model_options.RemoteSpeculate = None,
    adapter: model_options.Adapter = None,
    steps: model_options.StepOptions,
    offline: model_options.Offline = False,
    remote: ServerOptions,
) -> None:
    """Answer one prompt. Text streams to stdout, timings to stderr."""
    server = remote.server()
    if server is None:
        model_options.check_speculate(speculate)
    text = _prompt_text(prompt)
    given = dict(vars(sampling), seed=seed, max_tokens=max_tokens, stop=stop)
    settings = answer_options.sampling_settings(**given, speculate=None if server is None else speculate)
    if server is not None:
        from antiphon.cli.text.remote_run import run_remotely

        run_remotely(context, server, text, form, settings)
        return
    grammar = form.grammar()
    from antiphon.cli.local.session import load

    loaded = load(model, offline, engine.no_repack, engine.quantize, task="generate", device=engine.device)
    prompt_ids = _prompt_ids(loaded, text, system, raw)
    _answer(loaded, prompt_ids, settings, engine, steps, adapter, speculate=speculate, n=n, grammar=grammar)


def _answer(
    loaded: LoadedModel,
    prompt_ids: list[int],
    settings: dict[str, Any],
    engine_options: model_options.EngineOptions,
    steps: model_options.StepOptions,
    adapter: Path | None,
    *,
    speculate: str | None,
    **request: Any,
) -> None:
    """Print the answers of a model in this process, and the cost of each."""
    from antiphon.cli.local.session import adapted_name, engine_for

    options = dict(vars(steps), speculate=speculate)
    with engine_for(loaded, engine_options.kv_memory, engine_options.kv_type, **options) as engine:
        name = adapted_name(engine, loaded, adapter)
        streams = engine.stream_samples(prompt_ids, loaded.sampling.params(**settings), model=name, **request)
        for stream in streams:
            _print_stream(stream)
            print(f"{_report(loaded, stream)}; {loaded.sampling.describe(settings)}", file=sys.stderr)
    if any(stream.completion().finish_reason == "cancelled" for stream in streams):
        raise typer.Exit(130)


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


def _print_stream(stream: Stream) -> None:
    """Print the text as it is generated; Ctrl-C stops the answer and keeps the text so far."""
    try:
        for delta in stream:
            print(delta.text, end="", flush=True)
    except KeyboardInterrupt:
        stream.cancel()
        for _ in stream:
            pass
        print(" (stopped)", end="", file=sys.stderr, flush=True)
    print(flush=True)  # ends the line before the figures on standard error


def _report(loaded: LoadedModel, stream: Stream) -> str:
    from antiphon.cli.chat_models.embedded import stats_of

    stats = stats_of(stream)
    return stats.line(f", {stats.tokens_per_second * loaded.bytes_per_step() / 1e9:.1f} GB/s of weights read")
