"""`antiphon batch`: many prompts answered together, JSON lines out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antiphon.cli.arguments import answer_options, model_options
from antiphon.cli.chat_models.interface import drafts_note
from antiphon.cli.text.inputs import InputFile, read_inputs
from antiphon.counted import counted

if TYPE_CHECKING:
    from antiphon.runtime.text.output import Completion


def batch(
    model: model_options.ModelArgument,
    file: InputFile,
    *,
    sampling: answer_options.Sampling,
    seed: answer_options.Seed = 0,
    max_tokens: answer_options.MaxTokens = 256,
    stop: answer_options.Stop = None,
    raw: answer_options.Raw = False,
    form: answer_options.AnswerForm,
    max_running: Annotated[int, typer.Option(help="Maximum number of requests in one batch.", min=1)] = 32,
    policy: Annotated[Literal["fcfs", "priority", "adaptive"], typer.Option(help="Scheduling policy.")] = "fcfs",
    preemption: Annotated[
        Literal["recompute", "swap"],
        typer.Option(help="When the KV cache is full: recompute requests, or swap them to memory."),
    ] = "recompute",
    engine: model_options.EngineOptions,
    speculate: model_options.Speculate = None,
    steps: model_options.StepOptions,
    offline: model_options.Offline = False,
    verbose: model_options.Verbose = False,
) -> None:
    """Answer many prompts together. Prints one JSON line for each, in order.

    The seed is fixed: the same file gives the same answers again.
    """
    given = dict(vars(sampling), seed=seed, max_tokens=max_tokens, stop=stop)
    settings, grammar = answer_options.sampling_settings(**given), form.grammar()
    texts = read_inputs(file)
    from antiphon.cli.local.session import engine_for, load

    how: dict[str, Any] = dict(task="generate", device=engine.device, verbose=verbose)
    loaded = load(model, offline, engine.no_repack, engine.quantize, **how)
    template = not raw and loaded.chat_template is not None
    prompts: list[Any] = [[{"role": "user", "content": text}] if template else text for text in texts]
    options: dict[str, Any] = dict(vars(steps), max_running=max_running, max_waiting=max(1024, len(texts)))
    options |= dict(policy=policy, preemption=preemption, speculate=speculate)
    with engine_for(loaded, engine.kv_memory, engine.kv_type, **options) as made:
        answers = made.generate(prompts, loaded.sampling.params(**settings), grammar=grammar)
    for answer in answers:
        print(json.dumps(_line(answer, has_drafts=bool(speculate)), ensure_ascii=False))
    print(f"{_report(answers)}; {loaded.sampling.describe(settings)}, seed {seed}", file=sys.stderr)


def _line(answer: Completion, has_drafts: bool) -> dict[str, Any]:
    line = {
        "text": answer.text,
        "finish_reason": answer.finish_reason.value,
        "prompt_tokens": answer.prompt_tokens,
        "cached_tokens": answer.cached_tokens,
        "completion_tokens": len(answer.token_ids),
        "seconds": round(answer.timings.total, 4),
    }
    if has_drafts:
        line |= {"drafted_tokens": answer.drafted_tokens, "accepted_tokens": answer.accepted_tokens}
    return line


def _report(answers: Sequence[Completion]) -> str:
    total = sum(len(answer.token_ids) for answer in answers)
    longest = max((answer.timings.total for answer in answers), default=0.0)
    rate = total / longest if longest else 0.0
    drafts = drafts_note(
        sum(answer.drafted_tokens for answer in answers), sum(answer.accepted_tokens for answer in answers)
    )
    return f"{counted(len(answers), 'answer')}, {counted(total, 'token')} at {rate:.1f} tok/s in all{drafts}"
