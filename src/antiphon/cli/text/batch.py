"""`antiphon batch` and `antiphon embed`: many inputs at once, JSON lines out."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.cli.arguments import shared as options
from antiphon.cli.chat_models.interface import drafts_note
from antiphon.cli.remote.address import chosen_server
from antiphon.cli.terminal.files import read_stdin
from antiphon.counted import counted
from antiphon.errors import InvalidRequestError

InputFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="File with one input per line: text, or a JSON string. '-' is standard input."),
]


class Policy(StrEnum):
    FCFS = "fcfs"
    PRIORITY = "priority"
    ADAPTIVE = "adaptive"


class Preemption(StrEnum):
    RECOMPUTE = "recompute"
    SWAP = "swap"


def batch(
    model: options.ModelArgument,
    file: InputFile,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    seed: options.Seed = 0,
    max_tokens: options.MaxTokens = 256,
    stop: options.Stop = None,
    raw: options.Raw = False,
    json_schema: options.JsonSchema = None,
    regex: options.Regex = None,
    choice: options.Choice = None,
    max_running: Annotated[
        int, typer.Option("--max-running", help="Maximum number of requests in one batch.", min=1)
    ] = 32,
    policy: Annotated[Policy, typer.Option("--policy", help="Scheduling policy.")] = Policy.FCFS,
    preemption: Annotated[
        Preemption,
        typer.Option("--preemption", help="When the KV cache is full: recompute requests, or swap them to memory."),
    ] = Preemption.RECOMPUTE,
    device: options.Device = "auto",
    kv_memory: options.KVMemory = None,
    kv_type: options.KVType = None,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    speculate: options.Speculate = None,
    trace: options.Trace = None,
    profile: options.Profile = False,
    no_record: options.NoRecord = False,
    offline: options.Offline = False,
) -> None:
    """Answer many prompts together. Prints one JSON line for each, in order.

    The seed is fixed: the same file gives the same answers again.
    """
    sampling = options.sampling_settings(
        temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, max_tokens=max_tokens, stop=stop
    )
    grammar = options.grammar_of(json_schema, regex, choice)
    texts = _inputs(file)
    from antiphon.cli.local.session import engine_for, load

    loaded = load(model, offline, no_repack, quantize, task="generate", device=device)
    template = not raw and loaded.chat_template is not None
    prompts = [[{"role": "user", "content": text}] if template else text for text in texts]
    settings: dict[str, Any] = dict(
        max_running=max_running, max_waiting=max(1024, len(texts)), policy=policy, preemption=preemption,
        record=not no_record, record_requests=trace is not None,
    )  # fmt: skip
    with engine_for(loaded, kv_memory, kv_type, speculate=speculate, **settings) as engine:
        if profile:
            engine.start_profile()
        answers = engine.generate(prompts, loaded.sampling.params(**sampling), grammar=grammar)
        if trace is not None:
            engine.write_trace(trace)
        if profile:
            print("\n".join(engine.profile_lines()), file=sys.stderr)
    for answer in answers:
        line = {
            "text": answer.text,
            "finish_reason": answer.finish_reason.value,
            "prompt_tokens": answer.prompt_tokens,
            "cached_tokens": answer.cached_tokens,
            "completion_tokens": len(answer.token_ids),
            "seconds": round(answer.timings.total, 4),
        }
        if speculate:
            line |= {"drafted_tokens": answer.drafted_tokens, "accepted_tokens": answer.accepted_tokens}
        print(json.dumps(line, ensure_ascii=False))
    total = sum(len(answer.token_ids) for answer in answers)
    longest = max((answer.timings.total for answer in answers), default=0.0)
    rate = total / longest if longest else 0.0
    figures = f"{counted(len(answers), 'answer')}, {counted(total, 'token')} at {rate:.1f} tok/s in all"
    figures += drafts_note(
        sum(answer.drafted_tokens for answer in answers), sum(answer.accepted_tokens for answer in answers)
    )
    print(f"{figures}; {loaded.sampling.describe(sampling)}, seed {seed}", file=sys.stderr)


def embed(
    context: typer.Context,
    model: options.ModelArgument,
    file: InputFile,
    device: options.Device = "auto",
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    no_record: options.NoRecord = False,
    offline: options.Offline = False,
    base_url: options.BaseURL = None,
    api_key_file: options.ApiKeyFile = None,
    local: options.Local = False,
) -> None:
    """Embed texts. Prints one JSON list of numbers for each line, in order."""
    server = chosen_server(base_url, api_key_file, local)
    texts = _inputs(file)
    if server is not None:
        from antiphon.cli.text.remote_embed import embed_remotely

        embed_remotely(context, server, texts)
        return
    from antiphon.cli.local.session import load
    from antiphon.runtime.frontend.engine import Engine

    loaded = load(model, offline, no_repack, quantize, task="embed", device=device)
    with Engine(loaded, kv_bytes=1 << 20, record=not no_record, device=loaded.device.name) as engine:
        for vector in engine.embed(texts):
            print(json.dumps([round(value, 7) for value in vector.tolist()]))


def _inputs(file: Path) -> list[str]:
    """The file's lines that are not empty; a line that is a JSON string is decoded."""
    try:
        lines = read_stdin() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    texts = []
    for number, line in enumerate(lines.splitlines(), start=1):
        if not line.strip():
            continue
        if line.startswith('"'):
            try:
                line = json.loads(line)
            except ValueError as error:
                raise InvalidRequestError(f"{file}, line {number} is not a JSON string: {error}") from error
        texts.append(line)
    if not texts:
        raise InvalidRequestError(f"{file} has no lines to process")
    return texts
