"""`POST /v1/completions`: prompts continued as they are, several in one request, with their log-probabilities."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.openai.text.completion_chunks import CompletionChunks
from antiphon.server.generation.parameters.request_schemas import CompletionBody
from antiphon.server.generation.text.completion_call import CompletionCall, prepare_completion
from antiphon.server.generation.text.generation import Generations, Sample
from antiphon.server.generation.text.logprobs import completion_logprobs, prompt_logprobs
from antiphon.server.generation.text.streaming import closing, log_usage, stream_events
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import context_of

router = APIRouter()


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, CompletionBody, serving.config.limits.body_bytes)
    completion = await prepare_completion(serving, body)
    log_fields = context_of(request).log_fields
    log_fields["model"] = completion.model.name
    generations = Generations(serving, completion.calls)
    if body.stream:
        await unless_disconnected(request, generations.open())
        events = stream_events(generations, CompletionChunks(completion, generations, log_fields), log_fields)
        return EventStream(events, generations.close)
    return await unless_disconnected(request, _whole(completion, generations, log_fields))


def _columns(completion: CompletionCall, number: int, sample: Sample) -> dict[str, Any] | None:
    """The `logprobs` of a choice: of the prompt if it is echoed, and of the output, including the end token.

    The output has as many entries as tokens, which clients rely on that count from the end (lm-eval).
    """
    count = completion.body.logprobs
    if count is None:
        return None
    ids: list[int] = []
    values: list[float | None] = []
    tops: list[Any] = []
    if completion.body.echo:
        ids = list(completion.prompt(number))
        values = [None, *sample.end.prompt_logprobs]
        tops = [None, *(top[:count] for top in sample.end.prompt_top_logprobs)]
    if not completion.wants_no_output:
        ids += sample.token_ids
        values += sample.logprobs
        tops += sample.top_logprobs
    as_ids = bool(completion.body.return_tokens_as_token_ids)
    return completion_logprobs(completion.model.text.tokenizer, ids, values, tops if count else None, as_ids=as_ids)


def _details(completion: CompletionCall, number: int, sample: Sample) -> dict[str, Any]:
    """What vLLM adds to a choice if it is asked to."""
    details: dict[str, Any] = {}
    prompt, count = completion.prompt(number), completion.body.prompt_logprobs
    if count is not None:
        details["prompt_logprobs"] = prompt_logprobs(completion.model.text.tokenizer, prompt, sample.end, count)
    if completion.body.return_token_ids:
        details["prompt_token_ids"] = prompt
        details["token_ids"] = [] if completion.wants_no_output else sample.token_ids
    return details


def _best(completion: CompletionCall, samples: list[Sample]) -> list[int]:
    """The numbers of the samples that are choices: of each prompt the `n` with the highest mean log-probability."""
    size, n = completion.num_samples, completion.n
    if size == n:
        return list(range(len(samples)))
    groups = [range(first, first + size) for first in range(0, len(samples), size)]
    return [number for group in groups for number in sorted(group, key=lambda place: -samples[place].mean_logprob)[:n]]


async def _whole(completion: CompletionCall, generations: Generations, log_fields: dict[str, Any]) -> Response:
    async with closing(generations):
        await generations.open()
        samples = await generations.collect()
    choices = []
    for index, number in enumerate(_best(completion, samples)):
        sample = samples[number]
        text = completion.echo(number) + ("" if completion.wants_no_output else "".join(sample.text))
        reason = "length" if completion.wants_no_output else sample.end.finish_reason
        columns = _columns(completion, number, sample)
        choice = {"index": index, "text": text, "logprobs": columns, "finish_reason": reason}
        choices.append({**choice, **_details(completion, number, sample)})
    uncounted = sum(sample.end.completion_tokens for sample in samples) if completion.wants_no_output else 0
    usage = generations.usage(bool(completion.body.timings), uncounted)
    log_usage(log_fields, usage)
    return json_response({**completion.base(), "choices": choices, "usage": usage})
