"""Requests of the engine from what a caller asks: prompts encoded, constraints compiled, samples forked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from antiphon.engine.request import Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.control import MAX_SAMPLES, new_id
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_spec import Grammar, GrammarSpec

#: The messages of a conversation, each such as `{"role": "user", "content": "Hello"}`.
Messages = Sequence[Mapping[str, object]]
#: Text to continue, token ids, or the messages of a conversation.
Prompt = str | Sequence[int] | Messages


class RequestOptions(TypedDict, total=False):
    """Keyword arguments that every method for text takes."""

    model: str | None
    priority: Priority
    timeout: float | None
    grammar: Grammar | None
    cache_salt: str


#: Fields of `SamplingParams` that hold token ids.
TOKEN_FIELDS = ("logit_bias", "allowed_tokens", "banned_tokens", "stop_tokens")


def encode_prompt(loaded: LoadedModel, prompt: Prompt) -> list[int]:
    """Return the token ids of a prompt; messages go through the model's chat template."""
    tokenizer = loaded.tokenizer
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    if prompt and isinstance(prompt[0], Mapping):
        if loaded.chat_template is None:
            raise InvalidRequestError(f"model {loaded.name!r} has no chat template; give it plain text to continue")
        return loaded.chat_template.prompt(tokenizer, prompt).ids  # type: ignore[arg-type]
    ids = [int(token) for token in prompt]  # type: ignore[arg-type]
    for token in ids:
        if not 0 <= token < loaded.model.vocab_size:
            raise InvalidRequestError(f"token id {token} is outside the vocabulary of {loaded.model.vocab_size} tokens")
    return ids


def check_tokens(params: SamplingParams, vocab_size: int) -> None:
    """Reject token ids outside the vocabulary: one would fail the step of every request in its batch."""
    for name in TOKEN_FIELDS:
        for token in getattr(params, name) or ():
            if not 0 <= token < vocab_size:
                raise InvalidRequestError(
                    f"{name} has token id {token}, which is outside the vocabulary of {vocab_size} tokens"
                )


def known_priority(value: int) -> Priority:
    try:
        return Priority(value)
    except ValueError:
        raise InvalidRequestError(f"priority is {value}; it must be 0 to {max(Priority).value}") from None


@dataclass
class RequestFactory:
    """Factory of the requests of one model. The grammar compiler is created for the first constraint."""

    loaded: LoadedModel
    #: Slot of the adapter of all requests (-1 for none), and the adapter's digest.
    adapter: int = -1
    content: bytes = b""
    #: Default source of drafts, and whether there is a draft model.
    speculation: Speculation = Speculation.OFF
    has_draft_model: bool = False
    _compiler: GrammarCompiler | None = None

    def make(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        n: int = 1,
        priority: int = Priority.NORMAL,
        deadline: float | None = None,
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
        call_id: str | None = None,
    ) -> list[Request]:
        """Create `n` requests of one prompt: the first computes it, the others start from its blocks. Seeds count up.

        With `call_id` the ids are `call_id/0`, `call_id/1` and so on; otherwise each request has a new id.
        """
        if not 1 <= n <= MAX_SAMPLES:
            raise InvalidRequestError(f"n is {n}; it must be 1 to {MAX_SAMPLES}")
        check_tokens(params, self.loaded.model.vocab_size)
        urgency = known_priority(priority)
        ids = encode_prompt(self.loaded, prompt)
        # `ignore_eos` is ignored for a constrained answer: when it is complete, only an end token can follow.
        endless = params.ignore_eos and grammar is None
        stop_ids = params.stop_tokens if endless else params.stop_tokens | self.loaded.eos_ids
        constraint = None if grammar is None else self.compiler().compile(grammar)
        guess = self._guess(params)
        speculation = self._speculation(params, bool(guess))
        requests: list[Request] = []
        for index in range(n):
            request = Request(
                id=new_id() if call_id is None else f"{call_id}/{index}",
                model=self.loaded.name,
                prompt=ids,
                params=params if not index else replace(params, seed=_wrapped(params.seed + index)),
                priority=urgency,
                deadline=deadline,
                cache_salt=cache_salt,
                adapter=self.adapter,
                content=self.content,
                constraint=constraint if constraint is None or not index else constraint.clone(),
                fork_of=requests[0] if requests else None,
                stop_ids=stop_ids,
                speculates=speculation is not Speculation.OFF,
                uses_draft_model=speculation is Speculation.DRAFT,
                guess=guess,
            )
            requests.append(request)
        return requests

    def _speculation(self, params: SamplingParams, has_guess: bool) -> Speculation:
        if params.speculate is None:
            return Speculation.NGRAM if has_guess and self.speculation is Speculation.OFF else self.speculation
        asked = Speculation.parse(params.speculate)
        if asked is Speculation.DRAFT and not self.has_draft_model:
            raise InvalidRequestError(
                f"speculate is 'draft', and model {self.loaded.name!r} has no draft model: name one when you start it, "
                "as in --speculate MODEL"
            )
        return asked

    def _guess(self, params: SamplingParams) -> list[int]:
        """Return the tokens of the caller's predicted answer, cut to `max_tokens`."""
        if not params.prediction:
            return []
        ids = self.loaded.tokenizer.encode(params.prediction, add_special_tokens=False, parse_special=False)
        return ids[: params.max_tokens]

    def compiler(self) -> GrammarCompiler:
        if self._compiler is None:
            model, tokenizer = self.loaded.model, self.loaded.tokenizer
            size = min(model.vocab_size, tokenizer.vocab_size)
            self._compiler = GrammarCompiler(tokenizer, self.loaded.eos_ids, size)
        return self._compiler

    def make_embeddings(
        self,
        texts: Sequence[str | Sequence[int]],
        priority: int = Priority.NORMAL,
        call_id: str | None = None,
        second_starts: Sequence[int] | None = None,
    ) -> list[Request]:
        """Create a request for each text or list of token ids.

        `call_id` is as in `make`, `second_starts` as in `EmbedInputs`.
        """
        urgency = known_priority(priority)
        starts = [None] * len(texts) if second_starts is None else second_starts
        return [
            Request(
                id=new_id() if call_id is None else f"{call_id}/{index}",
                model=self.loaded.name,
                prompt=encode_prompt(self.loaded, text),
                params=SamplingParams(),
                task="embed",
                priority=urgency,
                inputs=start,
            )
            for index, (text, start) in enumerate(zip(texts, starts, strict=True))
        ]


def _wrapped(seed: int) -> int:
    """Wrap a seed to the range of signed 64-bit integers."""
    return (seed + 2**63) % 2**64 - 2**63
