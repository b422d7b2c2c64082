"""From what a caller asks to requests of the engine: prompts encoded, constraints compiled, samples forked."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.engine.request import Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.runtime.loading import LoadedModel
from antiphon.runtime.messages import MAX_SAMPLES
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_spec import GrammarSpec

#: Text to continue, token ids, or the messages of a conversation.
Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]

_numbers = itertools.count(1)


def new_id() -> str:
    return f"request-{next(_numbers)}"


def encode_prompt(loaded: LoadedModel, prompt: Prompt) -> list[int]:
    """Token ids of a prompt; messages go through the model's chat template."""
    tokenizer = loaded.tokenizer
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    if prompt and isinstance(prompt[0], Mapping):
        if loaded.chat_template is None:
            raise InvalidRequestError(f"model {loaded.name!r} has no chat template; give it plain text")
        return loaded.chat_template.prompt(tokenizer, prompt).ids  # type: ignore[arg-type]
    ids = [int(token) for token in prompt]  # type: ignore[arg-type]
    for token in ids:
        if not 0 <= token < loaded.model.vocab_size:
            raise InvalidRequestError(f"token id {token} is outside the vocabulary of {loaded.model.vocab_size} tokens")
    return ids


@dataclass
class RequestFactory:
    """Makes the requests of one model. The grammar compiler is made when the first constraint is asked for."""

    loaded: LoadedModel
    _compiler: GrammarCompiler | None = None

    def make(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        n: int = 1,
        priority: Priority = Priority.NORMAL,
        deadline: float | None = None,
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
    ) -> list[Request]:
        """`n` requests of one prompt: the first computes it, the others start from its blocks. Seeds count up."""
        if not 1 <= n <= MAX_SAMPLES:
            raise InvalidRequestError(f"n is {n}; it must be 1 to {MAX_SAMPLES}")
        ids = encode_prompt(self.loaded, prompt)
        # A constrained answer ends when it is complete; nothing but an end token could follow.
        endless = params.ignore_eos and grammar is None
        stop_ids = params.stop_tokens if endless else params.stop_tokens | self.loaded.eos_ids
        constraint = None if grammar is None else self.compiler().compile(grammar)
        requests: list[Request] = []
        for index in range(n):
            request = Request(
                id=new_id(),
                model=self.loaded.name,
                prompt=ids,
                params=params if not index else replace(params, seed=_wrapped(params.seed + index)),
                priority=priority,
                deadline=deadline,
                cache_salt=cache_salt,
                constraint=constraint if constraint is None or not index else constraint.clone(),
                fork_of=requests[0] if requests else None,
                stop_ids=stop_ids,
            )
            requests.append(request)
        return requests

    def compiler(self) -> GrammarCompiler:
        if self._compiler is None:
            model, tokenizer = self.loaded.model, self.loaded.tokenizer
            size = min(model.vocab_size, tokenizer.vocab_size)
            self._compiler = GrammarCompiler(tokenizer, self.loaded.eos_ids, size)
        return self._compiler

    def make_embedding(self, text: str, priority: Priority = Priority.NORMAL) -> Request:
        ids = self.loaded.tokenizer.encode(text)
        return Request(new_id(), self.loaded.name, ids, SamplingParams(), task="embed", priority=priority)


def _wrapped(seed: int) -> int:
    """Seeds are 64-bit; counting past the end goes on at the beginning."""
    return (seed + 2**63) % 2**64 - 2**63
