"""Log-probabilities in the two formats of OpenAI's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from antiphon.runtime.calls.events import Ended
from antiphon.text.tokenization.tokenizer import Tokenizer

#: Substitute for log-probabilities that JSON cannot represent.
LOWEST = -9999.0
Top = Sequence[tuple[int, float]]


class TokenEntry(TypedDict):
    token: str
    logprob: float
    bytes: list[int]


class RankedTokenEntry(TokenEntry):
    """A token of the text with its most likely alternatives."""

    top_logprobs: list[TokenEntry]


class TokenColumns(TypedDict):
    """Tokens of a text in columns, as `/v1/completions` returns them."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


def chat_logprobs(
    tokenizer: Tokenizer, ids: Sequence[int], logprobs: Sequence[float], tops: Sequence[Top], as_ids: bool = False
) -> list[RankedTokenEntry]:
    """Return one entry per token, which is written as its text, or with `as_ids` as `token_id:7`."""
    entries: list[RankedTokenEntry] = []
    for index, (token, logprob) in enumerate(zip(ids, logprobs, strict=True)):
        top = tops[index] if index < len(tops) else ()
        others = [token_entry(tokenizer, *one, as_ids) for one in top]
        entries.append({**token_entry(tokenizer, token, logprob, as_ids), "top_logprobs": others})
    return entries


def token_entry(tokenizer: Tokenizer, token: int, logprob: float, as_id: bool = False) -> TokenEntry:
    data = tokenizer.token_bytes(token)
    text = f"token_id:{token}" if as_id else data.decode("utf-8", errors="replace")
    return {"token": text, "logprob": max(logprob, LOWEST), "bytes": list(data)}


def completion_logprobs(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    logprobs: Sequence[float | None],
    tops: Sequence[Top | None] | None,
    offset: int = 0,
    as_ids: bool = False,
) -> TokenColumns:
    """Return columns over the tokens. A token that is part of a character is written as `bytes:\\x..`."""

    def spelling(token: int) -> str:
        return f"token_id:{token}" if as_ids else spelled(tokenizer, token)

    tokens, offsets = [], []
    for token in ids:
        tokens.append(spelling(token))
        offsets.append(offset)
        offset += num_characters(tokenizer, token)
    columns: list[dict[str, float] | None] | None = None
    if tops is not None:
        columns = [
            None if top is None else {spelling(token): max(value, LOWEST) for token, value in top} for top in tops
        ]
    finite = [None if value is None else max(value, LOWEST) for value in logprobs]
    return {"tokens": tokens, "token_logprobs": finite, "top_logprobs": columns, "text_offset": offsets}


def prompt_logprobs(tokenizer: Tokenizer, prompt: Sequence[int], ended: Ended, count: int) -> list[Any]:
    """Return vLLM's form: for each prompt token but the first, candidates by id, the token itself first."""
    entries: list[Any] = [None]
    for index, token in enumerate(prompt[1:]):
        top = ended.prompt_top_logprobs[index][:count] if count else []
        ranked = {token: (ended.prompt_logprobs[index], ended.prompt_ranks[index])}
        ranked |= {other: (value, rank) for rank, (other, value) in enumerate(top, 1) if other != token}
        entries.append(
            {
                str(candidate): {
                    "logprob": max(value, LOWEST),
                    "rank": rank,
                    "decoded_token": tokenizer.token_bytes(candidate).decode("utf-8", errors="replace"),
                }
                for candidate, (value, rank) in ranked.items()
            }
        )
    return entries


def num_characters(tokenizer: Tokenizer, token: int) -> int:
    return len(tokenizer.token_bytes(token).decode("utf-8", errors="replace"))


def spelled(tokenizer: Tokenizer, token: int) -> str:
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
