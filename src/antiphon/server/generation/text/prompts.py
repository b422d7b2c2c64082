"""Token ids of prompts that are given as text or as ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from antiphon.errors import TokenizerError, TooManyTokensError
from antiphon.server.generation.parameters.request_schemas import MixedPrompt, Prompts, Texts
from antiphon.server.generation.text.context_length import context_length_error
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.setup.config import Limits
from antiphon.server.web.http.errors import ApiError, invalid

Result = TypeVar("Result")
#: Maximum tokens of a text that is only tokenized, or truncated afterwards.
TOKENIZED_TOKENS = 262_144


def encode(model: ReadyModel, text: str, add_special_tokens: bool, max_tokens: int) -> list[int]:
    """Return a text's tokens, or raise `TooManyTokensError` before encoding all of it. Blocks only this thread."""
    return model.text.tokenizer.encode(text, add_special_tokens=add_special_tokens, max_tokens=max_tokens)


def most_tokens(model: ReadyModel, limits: Limits, truncate: int | None) -> int:
    """Return the maximum tokens of a prompt worth encoding: what `check_prompt` accepts, or what is truncated to it."""
    if truncate is not None:
        return max(TOKENIZED_TOKENS, model.max_tokens)
    return min(model.max_tokens - 1, model.max_tokens if limits.prompt_tokens is None else limits.prompt_tokens)


def counted_prompt(encode: Callable[[], Result], model: ReadyModel, limits: Limits, param: str) -> Result:
    """Return the result of `encode`. Reject a prompt that it finds too long, as `check_prompt` does."""
    try:
        return encode()
    except TooManyTokensError as error:
        if error.limit < model.max_tokens:
            check_length(error.num_tokens, model, limits, param, is_exact=error.is_exact)
        raise too_many_tokens(error, param) from None


def too_many_tokens(error: TooManyTokensError, param: str) -> ApiError:
    """Build the error for a text that is longer than what is tokenized for one request."""
    message = f"{param} has {error.counted} tokens; {error.limit} are tokenized for one request"
    return invalid(message, param, "context_length_exceeded")


def check_ids(model: ReadyModel, ids: list[int], param: str) -> list[int]:
    try:
        for token in (min(ids), max(ids)) if ids else ():
            model.text.tokenizer.check_id(token)
    except TokenizerError as error:
        raise invalid(str(error), param) from None
    return ids


@overload
def several(prompt: Texts) -> list[str | list[int]]: ...


@overload
def several(prompt: Prompts) -> list[str | MixedPrompt]: ...


def several(prompt: Any) -> list[Any]:
    """Return several prompts, each a string or a list of token ids and strings. A list of strings is several."""
    return [prompt] if isinstance(prompt, str) or any(isinstance(part, int) for part in prompt) else list(prompt)


def encode_mixed(model: ReadyModel, parts: MixedPrompt, max_tokens: int) -> list[int]:
    """Return the token ids of a prompt of text and ids. Only text at its beginning gets special tokens. Blocks."""
    ids: list[int] = []
    for index, part in enumerate(parts):
        ids += [part] if isinstance(part, int) else encode(model, part, not index, max_tokens)
    return ids


def check_prompt(
    ids: list[int],
    model: ReadyModel,
    limits: Limits,
    param: str,
    truncate: int | None,
    output_tokens: int | None = None,
) -> list[int]:
    """Return the prompt, cut to its last `truncate` tokens if given. Raise if it is too long.

    The context may shorten an answer of `output_tokens`, which only the error mentions.
    """
    if truncate is not None:
        ids = ids[-truncate:]
    if not ids:
        raise invalid(f"{param} has no tokens", param)
    check_length(len(ids), model, limits, param, output_tokens or 1)
    return ids


def check_length(
    num_tokens: int, model: ReadyModel, limits: Limits, param: str, output_tokens: int = 1, is_exact: bool = True
) -> None:
    """Raise if a prompt leaves no room for an answer. A count that is not exact is a lower bound."""
    if limits.prompt_tokens is not None and num_tokens > limits.prompt_tokens:
        taken = f"This server takes prompts of {limits.prompt_tokens} tokens."
        shown = num_tokens if is_exact else limits.prompt_tokens
        raise context_length_error(limits.prompt_tokens, shown, 0, param, taken, is_exact)
    if num_tokens >= model.max_tokens:
        shown = num_tokens if is_exact else model.max_tokens - 1
        raise context_length_error(model.max_tokens, shown, output_tokens, param, is_exact=is_exact)
