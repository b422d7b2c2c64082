"""`POST /v1/completions`: prompts continued as they are, several at once, with the prompt's own log-probabilities."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.messages import Ended, Generate
from antiphon.server.http.bodies import read_body
from antiphon.server.http.errors import invalid
from antiphon.server.http.events import closing, note_usage, stream_events
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import EventStream, Serving, json_answer, serving_of, unless_gone
from antiphon.server.setup.config import Limits
from antiphon.server.text.generation import Generations, Sample, make_call
from antiphon.server.text.logprobs import completion_logprobs, num_characters
from antiphon.server.text.prompts import check_ids, encode, several
from antiphon.server.text.request_schemas import CompletionBody
from antiphon.server.text.sampling import check_prompt, grammar_fields, output_tokens, sampling_fields

router = APIRouter()
DEFAULT_TOKENS = 16


@dataclass(frozen=True)
class Work:
    """A request that was understood. `echoes` are the prompts' texts where they are to be repeated."""

    model: ReadyModel
    body: CompletionBody
    calls: list[Generate]
    echoes: list[str]
    id: str = field(default_factory=lambda: f"cmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def n(self) -> int:
        return self.body.n or 1

    @property
    def wants_no_output(self) -> bool:
        """The engine always makes a token; asked for none, the server leaves it out."""
        return self.body.max_tokens == 0

    def base(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model.name}

    def echo(self, number: int) -> str:
        return self.echoes[number // self.n] if self.echoes else ""


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, CompletionBody, serving.config.limits.body_bytes)
    work = await understand(serving, body)
    figures = request.scope["passage"].figures
    figures["model"] = work.model.name
    generations = Generations(serving, work.calls)
    if body.stream:
        await unless_gone(request, generations.open())
        events = stream_events(generations, _chunks(work, generations, figures), figures)
        return EventStream(events, generations.close)
    return await unless_gone(request, _whole(work, generations, figures))


async def understand(serving: Serving, body: CompletionBody) -> Work:
    limits = serving.config.limits
    model = await serving.models.ready(body.model, "generate")
    prompts = several(body.prompt)
    _check(body, len(prompts), limits)
    grammar = grammar_fields(body)
    wants_prompt_logprobs = bool(body.echo) and body.logprobs is not None
    calls, echoes = [], []
    for prompt in prompts:
        if isinstance(prompt, str):
            ids = await asyncio.to_thread(encode, model, prompt, True)
        else:
            ids = check_ids(model, prompt, "prompt")
        kept = check_prompt(ids, model, limits, "prompt", body.truncate_prompt_tokens)
        if body.echo:
            whole = isinstance(prompt, str) and len(kept) == len(ids)
            echoes.append(str(prompt) if whole else model.text.tokenizer.decode(kept))
        params = sampling_fields(
            body,
            model,
            limits,
            max_tokens=max(1, output_tokens(body.max_tokens, len(kept), model, limits, DEFAULT_TOKENS)),
            logprobs=body.logprobs,
            grammar=grammar,
            prompt_logprobs=wants_prompt_logprobs,
        )
        calls.append(make_call(serving, body, model, kept, params, grammar))
    return Work(model, body, calls, echoes)


def _check(body: CompletionBody, num_prompts: int, limits: Limits) -> None:
    n = body.n or 1
    if not num_prompts:
        raise invalid("prompt is empty", "prompt")
    if num_prompts * n > limits.choices:
        message = (
            f"{num_prompts} prompts with {n} choices each are {num_prompts * n}; at most {limits.choices} are taken"
        )
        raise invalid(message, "n")
    if body.best_of is not None and body.best_of != n:
        raise invalid(
            f"best_of is {body.best_of} and n is {n}; choosing among more samples is not supported", "best_of"
        )
    if body.stream_options is not None and not body.stream:
        raise invalid("stream_options goes with stream: true", "stream_options")
    if body.max_tokens == 0 and not body.echo:
        raise invalid("max_tokens is 0; without echo it must be 1 or more", "max_tokens")
    if body.stream and body.echo and body.logprobs is not None:
        raise invalid("echo with logprobs cannot be streamed: the prompt's are known at the end", "stream")
    if body.max_tokens == 0 and body.stream:
        raise invalid("max_tokens is 0, so there is nothing to stream", "stream")


def _columns(work: Work, number: int, sample: Sample) -> dict[str, Any] | None:
    """The `logprobs` of a choice: of the prompt where it is echoed, and of the output, its end token included.

    So the output has as many entries as it has tokens, and whoever counts from the end (lm-eval) counts rightly.
    """
    count = work.body.logprobs
    if count is None:
        return None
    ids: list[int] = []
    values: list[float | None] = []
    tops: list[Any] = []
    if work.body.echo:
        ids = list(work.calls[number // work.n].prompt)
        values = [None, *sample.end.prompt_logprobs]
        tops = [None, *sample.end.prompt_top_logprobs]
    if not work.wants_no_output:
        ids += sample.token_ids
        values += sample.logprobs
        tops += sample.top_logprobs
    return completion_logprobs(work.model.text.tokenizer, ids, values, tops if count else None)


async def _whole(work: Work, generations: Generations, figures: dict[str, Any]) -> Response:
    async with closing(generations):
        await generations.open()
        samples = await generations.collect()
    choices = []
    for number, sample in enumerate(samples):
        text = work.echo(number) + ("" if work.wants_no_output else "".join(sample.text))
        reason = "length" if work.wants_no_output else sample.end.finish_reason
        columns = _columns(work, number, sample)
        choices.append({"index": number, "text": text, "logprobs": columns, "finish_reason": reason})
    uncounted = sum(sample.end.completion_tokens for sample in samples) if work.wants_no_output else 0
    usage = generations.usage(bool(work.body.timings), uncounted)
    note_usage(figures, usage)
    return json_answer({**work.base(), "choices": choices, "usage": usage})


async def _chunks(work: Work, generations: Generations, figures: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    wants_usage = work.body.stream_options is not None and bool(work.body.stream_options.include_usage)
    tail: dict[str, Any] = {"usage": None} if wants_usage else {}
    base = work.base()

    def chunk(number: int, text: str, columns: Any = None, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": number, "text": text, "logprobs": columns, "finish_reason": reason}
        return {**base, "choices": [choice], **tail}

    offsets = [0] * (len(work.calls) * work.n)
    if work.body.echo:
        for number in range(len(offsets)):
            yield chunk(number, work.echo(number))
            offsets[number] = len(work.echo(number))
    async for number, event in generations.events():
        if isinstance(event, Ended):
            yield chunk(number, "", reason=event.finish_reason)
            continue
        columns = None
        if work.body.logprobs is not None:
            ids, tops = event.token_ids, event.top_logprobs if work.body.logprobs else None
            tokenizer = work.model.text.tokenizer
            columns = completion_logprobs(tokenizer, ids, event.logprobs, tops, offsets[number])
            offsets[number] += sum(num_characters(tokenizer, token) for token in ids)
        yield chunk(number, event.text, columns)
    usage = generations.usage(bool(work.body.timings))
    note_usage(figures, usage)
    if wants_usage:
        yield {**base, "choices": [], "usage": usage}
