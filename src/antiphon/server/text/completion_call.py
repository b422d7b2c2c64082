"""`CompletionCall`: a validated completion request, and the checks that lead to it."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from antiphon.runtime.process.messages import Generate
from antiphon.server.http.errors import invalid
from antiphon.server.serving.fingerprint import fingerprint
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.setup.config import Limits
from antiphon.server.text.generation import make_call
from antiphon.server.text.grammar import grammar_of
from antiphon.server.text.prompts import check_ids, check_prompt, counted_prompt, encode, most_tokens, several
from antiphon.server.text.request_schemas import CompletionBody
from antiphon.server.text.sampling import output_tokens, sampling_params

DEFAULT_TOKENS = 16


@dataclass(frozen=True)
class CompletionCall:
    """What the engine is asked. `echoes` are the texts of the prompts, if they are to be repeated."""

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
        """The engine always generates a token; for `max_tokens: 0` the server omits it."""
        return self.body.max_tokens == 0

    def base(self) -> dict[str, Any]:
        base = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model.name}
        return {**base, "system_fingerprint": fingerprint(self.model.loaded)}

    def echo(self, number: int) -> str:
        return self.echoes[number // self.n] if self.echoes else ""


async def prepare_completion(serving: Serving, body: CompletionBody) -> CompletionCall:
    limits = serving.config.limits
    model = await serving.models.ready(body.model, "generate")
    prompts = several(body.prompt)
    _check(body, len(prompts), limits)
    grammar = grammar_of(body)
    wants_prompt_logprobs = bool(body.echo) and body.logprobs is not None
    calls, echoes = [], []
    for prompt in prompts:
        if isinstance(prompt, str):
            most = most_tokens(model, limits, body.truncate_prompt_tokens)
            ids = await asyncio.to_thread(
                counted_prompt, partial(encode, model, prompt, True, most), model, limits, "prompt"
            )
        else:
            ids = check_ids(model, prompt, "prompt")
        kept = check_prompt(ids, model, limits, "prompt", body.truncate_prompt_tokens, body.max_tokens)
        if body.echo:
            whole = isinstance(prompt, str) and len(kept) == len(ids)
            echoes.append(str(prompt) if whole else model.text.tokenizer.decode(kept))
        params = sampling_params(
            body,
            model,
            limits,
            max_tokens=max(1, output_tokens(body.max_tokens, len(kept), model, limits, DEFAULT_TOKENS)),
            logprobs=body.logprobs,
            grammar=grammar,
            prompt_logprobs=wants_prompt_logprobs,
        )
        calls.append(make_call(serving, body, model, kept, params, grammar))
    return CompletionCall(model, body, calls, echoes)


def _check(body: CompletionBody, num_prompts: int, limits: Limits) -> None:
    n = body.n or 1
    if not num_prompts:
        raise invalid("prompt is empty", "prompt")
    if num_prompts * n > limits.choices:
        message = (
            f"{num_prompts} prompts with {n} choices each are {num_prompts * n}; at most {limits.choices} are allowed"
        )
        raise invalid(message, "n")
    if body.best_of is not None and body.best_of != n:
        raise invalid(
            f"best_of is {body.best_of} and n is {n}; choosing among more samples is not supported", "best_of"
        )
    if body.max_tokens == 0 and not body.echo:
        raise invalid("max_tokens is 0; without echo it must be 1 or more", "max_tokens")
    if body.stream and body.echo and body.logprobs is not None:
        raise invalid("echo with logprobs cannot be streamed: the prompt's are known at the end", "stream")
    if body.max_tokens == 0 and body.stream:
        raise invalid("max_tokens is 0, so there is nothing to stream", "stream")
