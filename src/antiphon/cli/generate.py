"""`antiphon run` and `antiphon chat`: text from a model, in the terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.engine.sampling_params import SamplingParams
    from antiphon.runtime.generation import Generation
    from antiphon.runtime.loading import LoadedModel

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Catalog name, file, folder, or hub:owner/repository[:file].")
]
Temperature = Annotated[float, typer.Option("--temperature", help="0 always takes the likeliest token.")]
TopP = Annotated[float, typer.Option("--top-p", help="Sample from the likeliest tokens of this total probability.")]
TopK = Annotated[int, typer.Option("--top-k", help="Sample from this many likeliest tokens; 0 is all.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same text.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Longest answer.")]
System = Annotated[str | None, typer.Option("--system", help="System message.", show_default=False)]
Offline = Annotated[bool, typer.Option("--offline", help="Fetch nothing; fail if the model is not here.")]

HELP_IN_CHAT = (
    "/reset forgets the conversation, /system TEXT sets the system message, /exit leaves; Ctrl-C stops an answer"
)


def run(
    model: ModelArgument,
    prompt: Annotated[
        str | None, typer.Argument(help="What to ask; read from standard input if left out or '-'.", show_default=False)
    ] = None,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    seed: Seed = 0,
    max_tokens: MaxTokens = 256,
    system: System = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the prompt as it is, without a chat template.")] = False,
    offline: Offline = False,
) -> None:
    """Answer one prompt; figures follow on standard error."""
    text = _prompt_text(prompt)
    from antiphon.engine.sampling_params import SamplingParams

    params = SamplingParams(temperature, top_k, top_p, seed=seed, max_tokens=max_tokens)
    loaded = _load(model, offline)
    from antiphon.runtime.conversation import Conversation
    from antiphon.runtime.generation import Generation

    if raw or loaded.chat_template is None:
        if system:
            raise InvalidRequestError("--system needs a chat template, and this prompt is continued as it is")
        prompt_ids = loaded.tokenizer.encode(text)
    else:
        conversation = Conversation(loaded, system)
        conversation.add_user(text)
        prompt_ids = conversation.prompt_ids()
    generation = Generation(loaded, prompt_ids, params)
    _stream(generation)
    _report(generation)
    if not generation.stats.finish_reason:
        raise typer.Exit(130)


def chat(
    model: ModelArgument,
    temperature: Temperature = 0.7,
    top_p: TopP = 0.9,
    top_k: TopK = 0,
    seed: Seed = 0,
    max_tokens: MaxTokens = 1024,
    system: System = None,
    offline: Offline = False,
) -> None:
    """Hold a conversation in the terminal."""
    from antiphon.engine.sampling_params import SamplingParams

    params = SamplingParams(temperature, top_k, top_p, seed=seed, max_tokens=max_tokens)
    loaded = _load(model, offline)
    if loaded.chat_template is None:
        raise InvalidRequestError(f"model {loaded.name!r} has no chat template; use `antiphon run {model} --raw`")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (line editing and history in input())
    print(f"{loaded.name}: {HELP_IN_CHAT}", file=sys.stderr)
    _converse(loaded, params, system)


def _converse(loaded: LoadedModel, params: SamplingParams, system: str | None) -> None:
    """Read lines until the end of input. Ctrl-C at the prompt clears the line; during an answer it ends the answer."""
    from antiphon.errors import AntiphonError
    from antiphon.runtime.conversation import Conversation
    from antiphon.runtime.generation import Generation

    conversation = Conversation(loaded, system)
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
            conversation.reset()
            print("(forgotten)", file=sys.stderr)
            continue
        if command == "/system":
            conversation.system = argument.strip() or None
            conversation.reset()
            print("(system message set; conversation forgotten)", file=sys.stderr)
            continue
        if command.startswith("/"):
            print(f"(unknown command {command}; {HELP_IN_CHAT})", file=sys.stderr)
            continue
        conversation.add_user(line)
        try:
            answer = _stream(Generation(loaded, conversation.prompt_ids(), params))
        except AntiphonError as error:
            conversation.messages.pop()
            print(f"antiphon: {error}", file=sys.stderr)
            continue
        conversation.add_assistant(answer)


def _prompt_text(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if sys.stdin.isatty():
        raise InvalidRequestError("no prompt: give one after the model's name, or on standard input")
    text = sys.stdin.read()
    if not text.strip():
        raise InvalidRequestError("the prompt on standard input is empty")
    return text


def _load(model: str, offline: bool) -> LoadedModel:
    from antiphon.cli.progress import fetch_progress
    from antiphon.runtime.loading import load_model

    with fetch_progress() as progress:
        loaded = load_model(model, offline=offline, progress=progress)
    loaded.causal_lm()  # a model that does not generate is refused here
    print(f"{loaded.name}: {loaded.report.line()}", file=sys.stderr)
    if loaded.report.backend == "reference":
        print("antiphon: installed without native kernels (no C++ compiler was found); this is slower", file=sys.stderr)
    return loaded


def _stream(generation: Generation) -> str:
    """Print the pieces as they come; Ctrl-C keeps what was said so far."""
    pieces = []
    try:
        for piece in generation:
            pieces.append(piece)
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(" (stopped)", end="", file=sys.stderr, flush=True)
    print()
    return "".join(pieces)


def _report(generation: Generation) -> None:
    stats = generation.stats
    print(
        f"{stats.prompt_tokens} prompt tokens, first token after {stats.time_to_first_token * 1e3:.0f} ms, "
        f"{stats.output_tokens} tokens at {stats.tokens_per_second:.1f} tok/s, "
        f"{stats.bandwidth / 1e9:.1f} GB/s of weights read, ended by {stats.finish_reason or 'interruption'}",
        file=sys.stderr,
    )
