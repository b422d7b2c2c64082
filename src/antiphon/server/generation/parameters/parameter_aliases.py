"""Aliases of parameters: names of vLLM and llama.cpp are replaced by the server's own fields."""

from __future__ import annotations

from typing import Any, TypeVar

from antiphon.server.generation.parameters.request_schemas import CompletionBody, GenerateBody
from antiphon.server.web.http.errors import ApiError, invalid

AnyGenerateBody = TypeVar("AnyGenerateBody", bound=GenerateBody)
#: Number of tokens that exceeds any context: the context is the only limit.
UNLIMITED = 2**31 - 1
ALIASES = {"repetition_penalty": "repeat_penalty", "typical_p": "typ_p"}
LENGTHS = ("max_tokens", "max_completion_tokens", "n_predict")


def resolved(body: AnyGenerateBody, max_output_tokens: int | None = None) -> AnyGenerateBody:
    """Return the request with our parameter names. Raise if two names of one parameter have different values.

    `max_output_tokens` is the server's limit, which applies to a request without limits.
    """
    values: dict[str, Any] = {}
    for name, alias in ALIASES.items():
        values[name] = _one(**{name: getattr(body, name), alias: getattr(body, alias)})
    lengths = {name: getattr(body, name, None) for name in LENGTHS}
    asked = _one(**{name: UNLIMITED if value is not None and value < 0 else value for name, value in lengths.items()})
    if asked == UNLIMITED and max_output_tokens is not None:
        asked = max_output_tokens
    if body.n_predict is not None or asked != body.max_tokens:
        values["max_tokens"] = asked
        if "max_completion_tokens" in type(body).model_fields:
            values["max_completion_tokens"] = asked
    if body.seed == -1:
        values["seed"] = None  # llama.cpp's value for a random seed
    if body.top_k == -1:
        values["top_k"] = 0  # vLLM's value to turn it off
    if body.n_probs:
        values |= _logprobs(body, body.n_probs)
    return body.model_copy(update=values)


def _one(**given: Any) -> Any:
    """Return the value that all given names agree on, or None if none is given."""
    known = {name: value for name, value in given.items() if value is not None}
    (first, value), *others = known.items() if known else [("", None)]
    for name, other in others:
        if other != value:
            raise differ(first, name)
    return value


def differ(first: str, second: str) -> ApiError:
    return invalid(f"{first} and {second} differ; give one", second)


def _logprobs(body: GenerateBody, count: int) -> dict[str, Any]:
    """Translate llama.cpp's `n_probs` into OpenAI's fields."""
    if isinstance(body, CompletionBody):
        return {"logprobs": _one(logprobs=body.logprobs, n_probs=count)}
    if getattr(body, "logprobs", None) is False:
        raise differ("logprobs", "n_probs")
    return {"logprobs": True, "top_logprobs": _one(top_logprobs=getattr(body, "top_logprobs", None), n_probs=count)}
