"""Log-probabilities in the two formats of OpenAI's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.text.tokenization.tokenizer import Tokenizer

#: In place of log-probabilities that JSON cannot represent.
LOWEST = -9999.0
Top = Sequence[tuple[int, float]]


def chat_logprobs(
    tokenizer: Tokenizer, ids: Sequence[int], logprobs: Sequence[float], tops: Sequence[Top]
) -> list[dict[str, Any]]:
    """One entry per token."""
    entries = []
    for place, (token, logprob) in enumerate(zip(ids, logprobs, strict=True)):
        top = tops[place] if place < len(tops) else ()
        entries.append({**_entry(tokenizer, token, logprob), "top_logprobs": [_entry(tokenizer, *one) for one in top]})
    return entries


def _entry(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    data = tokenizer.token_bytes(token)
    text = data.decode("utf-8", errors="replace")
    return {"token": text, "logprob": max(logprob, LOWEST), "bytes": list(data)}


def completion_logprobs(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    logprobs: Sequence[float | None],
    tops: Sequence[Top | None] | None,
    offset: int = 0,
) -> dict[str, Any]:
    """Columns over the tokens; a token that is part of a character is written as `bytes:\\x..`."""
    tokens, offsets = [], []
    for token in ids:
        tokens.append(spelled(tokenizer, token))
        offsets.append(offset)
        offset += num_characters(tokenizer, token)
    columns: list[dict[str, float] | None] | None = None
    if tops is not None:
        columns = [
            None if top is None else {spelled(tokenizer, token): max(value, LOWEST) for token, value in top}
            for top in tops
        ]
    finite = [None if value is None else max(value, LOWEST) for value in logprobs]
    return {"tokens": tokens, "token_logprobs": finite, "top_logprobs": columns, "text_offset": offsets}


def num_characters(tokenizer: Tokenizer, token: int) -> int:
    return len(tokenizer.token_bytes(token).decode("utf-8", errors="replace"))


def spelled(tokenizer: Tokenizer, token: int) -> str:
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
