"""Sampling parameters of the engine, made from a request's body."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError
from antiphon.server.generation.parameters.logit_bias import logit_bias
from antiphon.server.generation.parameters.request_schemas import GenerateBody
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.setup.config import Limits
from antiphon.server.web.http.errors import invalid
from antiphon.text.grammar_spec import GrammarSpec

SIMPLE = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
    "ignore_eos",
)


def sampling_params(
    body: GenerateBody,
    model: ReadyModel,
    limits: Limits,
    *,
    max_tokens: int,
    logprobs: int | None,
    grammar: GrammarSpec | None,
    prompt_logprobs: bool = False,
    more_stops: Sequence[str] = (),
    prediction: str = "",
) -> SamplingParams:
    """Build the engine's parameters. The model's defaults and a random seed replace missing values.

    Raise `ApiError` if a value is invalid.
    """
    _check_choice_of_tokens(body, model, grammar)
    given = {name: getattr(body, name) for name in SIMPLE if getattr(body, name) is not None}
    values: dict[str, Any] = {**model.text.sampling.settings, **given}
    values["logit_bias"], never = logit_bias(body.logit_bias, model, limits)
    if body.allowed_token_ids is not None:
        values["allowed_tokens"] = _token_ids(body.allowed_token_ids, "allowed_token_ids", model)
    try:
        return SamplingParams(
            banned_tokens=_token_ids(body.banned_token_ids, "banned_token_ids", model) | never,
            seed=secrets.randbits(62) if body.seed is None else body.seed,
            max_tokens=max_tokens,
            stop=(*_stop(body, limits), *more_stops),
            stop_tokens=_token_ids(body.stop_token_ids, "stop_token_ids", model),
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs or body.prompt_logprobs is not None,
            prompt_top_logprobs=_prompt_top(body, logprobs if prompt_logprobs else None),
            skip_special_tokens=body.skip_special_tokens is not False,
            include_stop_str_in_output=bool(body.include_stop_str_in_output),
            speculate=_speculation(body.speculate),
            prediction=prediction,
            **values,
        )
    except InvalidRequestError as error:
        raise invalid(str(error), str(error).partition(" is ")[0]) from None


def _speculation(asked: str | bool | None) -> str | None:
    """Translate false and true into `off` and `ngram`."""
    return asked if not isinstance(asked, bool) else Speculation.NGRAM if asked else Speculation.OFF


def _check_choice_of_tokens(body: GenerateBody, model: ReadyModel, grammar: GrammarSpec | None) -> None:
    """Raise if restrictions of tokens leave no token, or are combined with a grammar."""
    for name in ("allowed_token_ids", "banned_token_ids", "min_tokens"):
        if grammar is not None and getattr(body, name):
            raise invalid(f"{name} cannot be combined with a response format or grammar", name)
    allowed, banned = body.allowed_token_ids, frozenset(body.banned_token_ids or ())
    if banned and banned.issuperset(range(model.text.tokenizer.vocab_size) if allowed is None else allowed):
        raise invalid("banned_token_ids leave no token that is allowed", "banned_token_ids")


def _stop(body: GenerateBody, limits: Limits) -> list[str]:
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if len(stops) > limits.stop_strings:
        raise invalid(f"stop has {len(stops)} strings; at most {limits.stop_strings} are allowed", "stop")
    for text in stops:
        if not 1 <= len(text) <= limits.stop_characters:
            raise invalid(
                f"a stop string has {len(text)} characters; it must have 1 to {limits.stop_characters}", "stop"
            )
    return stops


def _token_ids(ids: Iterable[int] | None, name: str, model: ReadyModel) -> frozenset[int]:
    size = model.text.tokenizer.vocab_size
    token = max(ids or (), default=0)
    if token >= size:
        raise invalid(f"{name}: token id {token} is outside the vocabulary of {size} tokens", name)
    return frozenset(ids or ())


def _prompt_top(body: GenerateBody, echoed: int | None) -> int | None:
    """Return the number of likeliest tokens to report beside those of the prompt."""
    return None if body.prompt_logprobs is None else max(body.prompt_logprobs, echoed or 0)


def output_tokens(asked: int | None, prompt_tokens: int, model: ReadyModel, limits: Limits, default: int | None) -> int:
    """Return the maximum output: the requested or default length, within the context and the server's limit."""
    if asked is not None and limits.output_tokens is not None and asked > limits.output_tokens:
        raise invalid(f"max_tokens is {asked}; this server allows {limits.output_tokens}", "max_tokens")
    room = max(1, model.max_tokens - prompt_tokens)
    bounds = [room, asked if asked is not None else default, limits.output_tokens]
    return min(bound for bound in bounds if bound is not None)
