"""`antiphon run`: the answer to a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.remote.options import ServerOptions
from antiphon.errors import UsageError
from antiphon.weights.catalog.defaults import CHAT_MODEL

if TYPE_CHECKING:
    from antiphon.runtime.frontend.streams import Stream
    from antiphon.runtime.loading.loading import LoadedModel


#: Options that also apply to a server; the others concern a model loaded in this process.
REMOTE = (
    "model", "prompt", "max_tokens", "n", "system", "raw", "seed", "stop", "speculate",
    *answer_options.Sampling.names(), *answer_options.AnswerForm.names(),
)  # fmt: skip


def run(
    context: typer.Context,
    model: Annotated[str | None, model_options.model_argument(CHAT_MODEL)] = None,
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
    verbose: model_options.Verbose = False,
    remote: ServerOptions,
) -> None:
    """Answer one prompt. Text streams to stdout, timings to stderr.

    A single argument with a space or a question mark is a prompt, unless a model or a file has this name.
    """
    named = remote.named_server()
    if named is None:
        model_options.check_speculate(speculate)
    given = dict(vars(sampling), seed=seed, max_tokens=max_tokens, stop=stop)
    settings = answer_options.sampling_settings(**given, speculate=None if named is None else speculate)
    grammar = None if named is not None else form.grammar()
    from antiphon.cli.text.prompt_arguments import read_arguments

    asked = read_arguments(model, prompt, names_of_server=named is not None)
    server = remote.server(
        context,
        REMOTE,
        {"generate": asked.model},
        is_default=asked.is_default,
        stays_here=model_options.needs_draft_model(speculate),
    )
    if server is not None:
        from antiphon.cli.remote.running import local_if_unable
        from antiphon.cli.text.remote_run import RemoteRun

        with local_if_unable(server):
            RemoteRun(server, asked, form, n, system, raw).print_answers(dict(settings, speculate=speculate))
            return
    from antiphon.cli.local.session import load

    how: dict[str, Any] = dict(task="generate", device=engine.device, verbose=verbose)
    loaded = load(asked.model, offline, engine.no_repack, engine.quantize, **how)
    prompt_ids = _prompt_ids(loaded, asked.text, system, raw)
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
