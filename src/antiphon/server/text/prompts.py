"""The token ids of prompts that are given as text or as ids."""

from __future__ import annotations

from antiphon.errors import TokenizerError
from antiphon.server.http.errors import invalid
from antiphon.server.serving.models import ReadyModel
from antiphon.server.setup.config import Limits
from antiphon.server.text.context_length import context_length_error


def encode(model: ReadyModel, text: str, add_special_tokens: bool) -> list[int]:
    """Blocking."""
    return model.text.tokenizer.encode(text, add_special_tokens=add_special_tokens)


def check_ids(model: ReadyModel, ids: list[int], param: str) -> list[int]:
    try:
        for token in ids:
            model.text.tokenizer.check_id(token)
    except TokenizerError as error:
        raise invalid(str(error), param) from None
    return ids


def several(prompt: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    """One prompt or many: strings, or lists of token ids."""
    if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
        return [prompt]
    return list(prompt)  # type: ignore[arg-type]


def check_prompt(
    ids: list[int],
    model: ReadyModel,
    limits: Limits,
    param: str,
    truncate: int | None,
    output_tokens: int | None = None,
) -> list[int]:
    """The prompt, cut to its last `truncate` tokens if that is given. A prompt that is too long is rejected.

    An answer of `output_tokens` is shortened to what the context leaves; the error only names them.
    """
    if truncate is not None:
        ids = ids[-truncate:]
    if not ids:
        raise invalid(f"{param} has no tokens", param)
    if limits.prompt_tokens is not None and len(ids) > limits.prompt_tokens:
        more = f"This server takes prompts of {limits.prompt_tokens} tokens."
        raise context_length_error(limits.prompt_tokens, len(ids), 0, param, more)
    if len(ids) >= model.max_tokens:
        raise context_length_error(model.max_tokens, len(ids), output_tokens or 1, param)
    return ids
