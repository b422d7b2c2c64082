"""`antiphon chat`: a conversation with a model in this process or in a running server."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.remote.options import ServerOptions


def chat(
    context: typer.Context,
    model: model_options.ModelArgument,
    *,
    sampling: answer_options.Sampling,
    seed: answer_options.AnswerSeed = None,
    max_tokens: answer_options.MaxTokens = 1024,
    system: answer_options.System = None,
    stats: Annotated[bool, typer.Option("--stats", help="Show the speed and the seed after each answer.")] = False,
    engine: model_options.EngineOptions,
    speculate: model_options.RemoteSpeculate = None,
    adapter: model_options.Adapter = None,
    no_record: model_options.NoRecord = False,
    offline: model_options.Offline = False,
    remote: ServerOptions,
) -> None:
    """Chat with a model in the terminal. /help lists the commands."""
    server = remote.server()
    if server is None:
        model_options.check_speculate(speculate)
    given = dict(vars(sampling), seed=seed, max_tokens=max_tokens)
    settings = answer_options.sampling_settings(**given, speculate=None if server is None else speculate)
    from antiphon.cli.chat.loop import converse
    from antiphon.cli.chat.state import ChatState

    state = ChatState(system, settings, shows_stats=stats)
    if server is not None:
        from antiphon.cli.chat_models.remote import RemoteModel
        from antiphon.cli.remote.client import Client
        from antiphon.cli.remote.given import Given

        names = ("model", "max_tokens", "system", "stats", "seed", "speculate", *answer_options.Sampling.names())
        Given.of(context).allow(names, server)
        print(f"{model} at {server.url}", file=sys.stderr)
        converse(RemoteModel(Client(server), model), state)
        return
    from antiphon.cli.local.session import adapted_name, engine_for, load

    loaded = load(model, offline, engine.no_repack, engine.quantize, task="generate", device=engine.device)
    from antiphon.cli.chat_models.embedded import EmbeddedModel

    EmbeddedModel.check(loaded)
    print(f"{loaded.name}: {loaded.sampling.describe(settings)}", file=sys.stderr)
    with engine_for(loaded, engine.kv_memory, engine.kv_type, speculate=speculate, no_record=no_record) as made:
        converse(EmbeddedModel(made, loaded, adapted_name(made, loaded, adapter)), state)
