"""`CompletionCall`: a validated completion request, and the checks that build it."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from antiphon.runtime.calls.tasks import Generate
from antiphon.server.generation.parameters.grammar import grammar_of
from antiphon.server.generation.parameters.parameter_aliases import resolved
from antiphon.server.generation.parameters.request_schemas import CompletionBody, MixedPrompt
from antiphon.server.generation.parameters.sampling import output_tokens, sampling_params
from antiphon.server.generation.text.generation import make_call
from antiphon.server.generation.text.prompts import (
    check_ids,
    check_prompt,
    counted_prompt,
    encode_mixed,
    most_tokens,
    several,
)
from antiphon.server.serving.fingerprint import fingerprint
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup.config import Limits
from antiphon.server.web.http.errors import invalid
from antiphon.text.tokenization.tokenizer import Tokenizer

DEFAULT_TOKENS = 16


@dataclass(frozen=True)
class CompletionCall:
    """Calls for the engine. `echoes` are the texts of the prompts if the answer repeats them, otherwise empty."""

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
    def num_samples(self) -> int:
        """Number of samples per prompt, of which the `n` best are choices."""
        return self.body.best_of or self.n

    def prompt(self, number: int) -> list[int]:
        """Return the prompt of a sample."""
        return self.calls[number // self.num_samples].prompt

    @property
    def wants_no_output(self) -> bool:
        """Whether `max_tokens` is 0. The engine always generates a token, which the server then omits."""
        return self.body.max_tokens == 0

    def base(self) -> dict[str, Any]:
        base = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model.name}
        return {**base, "system_fingerprint": fingerprint(self.model.loaded)}

    def echo(self, number: int) -> str:
        """Return the text of a sample's prompt if the answer repeats it, otherwise an empty string."""
        return self.echoes[number // self.num_samples] if self.echoes else ""


async def prepare_completion(serving: Serving, body: CompletionBody) -> CompletionCall:
    limits = serving.config.limits
    body = resolved(body, limits.output_tokens)
    model = await serving.models.ready(body.model, "generate")
    prompts = several(body.prompt)
    _check(body, len(prompts), limits)
    grammar = await asyncio.to_thread(grammar_of, body)
    wants_prompt_logprobs = bool(body.echo) and body.logprobs is not None
    # With log-probabilities the engine also reports the end token.
    needs_logprobs = bool(body.return_token_ids) or (body.best_of or 1) > (body.n or 1)
    calls, echoes = [], []
    for prompt in prompts:
        parts: MixedPrompt = [prompt] if isinstance(prompt, str) else prompt
        check_ids(model, [part for part in parts if isinstance(part, int)], "prompt")
        most = most_tokens(model, limits, body.truncate_prompt_tokens)
        if body.suffix:
            encode = partial(_fill_in_middle, model, parts, body.suffix, most)
        else:
            encode = partial(encode_mixed, model, parts, most)
        ids = await asyncio.to_thread(counted_prompt, encode, model, limits, "prompt")
        kept = check_prompt(ids, model, limits, "prompt", body.truncate_prompt_tokens, body.max_tokens)
        if body.echo:
            whole = isinstance(prompt, str) and len(kept) == len(ids)
            echoes.append(str(prompt) if whole else model.text.tokenizer.decode(kept))
        params = sampling_params(
            body,
            model,
            limits,
            max_tokens=max(1, output_tokens(body.max_tokens, len(kept), model, limits, DEFAULT_TOKENS)),
            logprobs=0 if body.logprobs is None and needs_logprobs else body.logprobs,
            grammar=grammar,
            prompt_logprobs=wants_prompt_logprobs,
        )
        if body.suffix and model.text.fill_in_middle is not None:
            params = replace(params, stop_tokens=params.stop_tokens | model.text.fill_in_middle.ends)
        calls.append(make_call(serving, body, model, kept, params, grammar, body.best_of))
    return CompletionCall(model, body, calls, echoes)


def _fill_in_middle(model: ReadyModel, parts: MixedPrompt, suffix: str, max_tokens: int) -> list[int]:
    """Return the prompt for the text between the parts and the suffix, which are not read as control tokens."""
    middle, tokenizer = model.text.fill_in_middle, model.text.tokenizer
    if middle is None:
        message = f"model {model.name!r} has no tokens for filling in the middle, so it takes no suffix"
        raise invalid(message, "suffix", "unsupported_value")
    before: list[int] = []
    for part in parts:
        before += [part] if isinstance(part, int) else plain_ids(tokenizer, part, max_tokens)
    after = plain_ids(tokenizer, suffix, max_tokens)
    return middle.prompt(before, after, tokenizer.special.bos_id if tokenizer.add_bos else None)


def plain_ids(tokenizer: Tokenizer, text: str, max_tokens: int) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False, parse_special=False, max_tokens=max_tokens)


def _check(body: CompletionBody, num_prompts: int, limits: Limits) -> None:
    n = body.n or 1
    if not num_prompts:
        raise invalid("prompt is empty", "prompt")
    samples = body.best_of or n
    if samples < n:
        raise invalid(f"best_of is {samples} and n is {n}; it must be n or more", "best_of")
    if samples > n and body.stream:
        raise invalid(f"best_of is {samples} and n is {n}; the best are known at the end: omit stream", "best_of")
    if num_prompts * samples > limits.choices:
        message = (
            f"{num_prompts} prompts with {samples} choices each are {num_prompts * samples}; "
            f"at most {limits.choices} are allowed"
        )
        raise invalid(message, "n" if body.best_of is None else "best_of")
    if body.prompt_logprobs is not None and body.stream:
        raise invalid("prompt_logprobs cannot be streamed: they are known at the end", "prompt_logprobs")
    if body.suffix and body.echo:
        raise invalid("echo cannot be combined with suffix", "echo")
    if body.suffix and body.truncate_prompt_tokens is not None:
        raise invalid("truncate_prompt_tokens cannot be combined with suffix", "truncate_prompt_tokens")
    if body.max_tokens == 0 and not body.echo:
        raise invalid("max_tokens is 0; without echo it must be 1 or more", "max_tokens")
    if body.stream and body.echo and body.logprobs is not None:
        raise invalid("echo with logprobs cannot be streamed: the prompt's are known at the end", "stream")
    if body.max_tokens == 0 and body.stream:
        raise invalid("max_tokens is 0, so there is nothing to stream", "stream")
