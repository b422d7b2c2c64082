"""Log-probabilities of a transcript's tokens, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.runtime.calls.transcript import Segment
from antiphon.text.tokenization.tokenizer import Tokenizer

#: Substitute for log-probabilities that JSON cannot represent.
LOWEST = -9999.0


def token_logprobs(segments: Sequence[Segment], tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return `logprobs` of the text's tokens, without timestamps; empty without a tokenizer."""
    if tokenizer is None:
        return {}
    entries = []
    for segment in segments:
        for token, logprob in zip(segment.tokens, segment.logprobs, strict=True):
            if token in tokenizer.special_ids:
                continue
            data = tokenizer.token_bytes(token)
            text = data.decode("utf-8", errors="replace")
            entries.append({"token": text, "logprob": max(logprob, LOWEST), "bytes": list(data)})
    return {"logprobs": entries}
