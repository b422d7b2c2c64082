"""`antiphon chat`: a conversation with a model in this process or in a running server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.chat_models.interface import SERVER_MODEL
from antiphon.cli.remote.options import ServerOptions
from antiphon.weights.catalog.defaults import CHAT_MODEL

if TYPE_CHECKING:
    from antiphon.cli.chat_models.embedded import EmbeddedModel

#: Options that also apply to a server; the others concern a model loaded in this process.
REMOTE = ("model", "max_tokens", "system", "stats", "seed", "speculate", *answer_options.Sampling.names())


def chat(
    context: typer.Context,
    model: Annotated[str | None, model_options.model_argument(CHAT_MODEL)] = None,
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
    verbose: model_options.Verbose = False,
    remote: ServerOptions,
) -> None:
    """Chat with a model in the terminal. /help lists the commands."""
    named = remote.named_server()
    if named is None:
        model_options.check_speculate(speculate)
    given = dict(vars(sampling), seed=seed, max_tokens=max_tokens)
    settings = answer_options.sampling_settings(**given, speculate=None if named is None else speculate)
    default = CHAT_MODEL if named is None else SERVER_MODEL
    chosen, needs_draft = model or default, model_options.needs_draft_model(speculate)
    models = {"generate": chosen}
    server = remote.server(context, REMOTE, models, is_default=model is None, stays_here=needs_draft)
    if model is None and server is None:
        _note_recommended(chosen)
    from antiphon.cli.chat.loop import converse
    from antiphon.cli.chat.state import ChatState

    state = ChatState(system, settings, shows_stats=stats)
    local = _LocalChat(chosen, engine, speculate, adapter, no_record, offline, verbose)
    with ExitStack() as stack:
        if server is None:
            converse(stack.enter_context(local.model(settings)), state)
            return
        from antiphon.cli.chat_models.fallback import FallbackModel
        from antiphon.cli.chat_models.remote import RemoteModel
        from antiphon.cli.remote.client import Client

        if named is not None:
            print(f"{chosen} at {server.url}", file=sys.stderr)
        elif speculate is not None:
            state.settings = dict(settings, speculate=speculate)
        remote_model = RemoteModel(Client(server), chosen)
        converse(FallbackModel(server, remote_model, lambda: stack.enter_context(local.model(settings))), state)


def _note_recommended(chosen: str) -> None:
    """Print the command of the best chat model for this machine's memory, unless it is the chosen one."""
    from antiphon.cli.terminal.notes import note
    from antiphon.cli.terminal.sizes import size_text
    from antiphon.runtime.analysis.recommended import recommended

    best = recommended("chat")
    if best is not None and best.name != chosen:
        source = " from the model hub" if best.needs_hub else ""
        note(f"recommended for this machine: `antiphon chat {best.name}` (downloads {size_text(best.size)}{source})")


@dataclass(frozen=True)
class _LocalChat:
    """Model to be loaded in this process, and the options of its engine."""

    name: str
    engine: model_options.EngineOptions
    speculate: str | None
    adapter: Path | None
    no_record: bool
    offline: bool
    verbose: bool

    @contextmanager
    def model(self, settings: dict[str, Any]) -> Iterator[EmbeddedModel]:
        """Load the model and start its engine; with `verbose`, print its sampling `settings`."""
        from antiphon.cli.local.session import adapted_name, engine_for, load

        engine = self.engine
        how: dict[str, Any] = dict(task="generate", device=engine.device, verbose=self.verbose)
        loaded = load(self.name, self.offline, engine.no_repack, engine.quantize, **how)
        from antiphon.cli.chat_models.embedded import EmbeddedModel

        EmbeddedModel.check(loaded)
        if self.verbose:
            print(f"{loaded.name}: {loaded.sampling.describe(settings)}", file=sys.stderr)
        options: dict[str, Any] = dict(speculate=self.speculate, no_record=self.no_record)
        with engine_for(loaded, engine.kv_memory, engine.kv_type, **options) as made:
            yield EmbeddedModel(made, loaded, adapted_name(made, loaded, self.adapter))
