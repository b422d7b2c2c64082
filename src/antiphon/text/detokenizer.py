"""Text from a stream of tokens, emitted as early as it is certain."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from antiphon.text.tokenization.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """An incremental decoder of token ids.

    The results of all `push` calls and the final `flush`, joined, equal `tokenizer.decode` of all ids. No call returns
    part of a character: incomplete bytes are held back, invalid bytes become U+FFFD at once.

    `prompt_ids` are the tokens before the stream, if it continues a text: a first token that begins with a space then
    keeps the space, as in `decode` of prompt and stream together.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True, prompt_ids: Iterable[int] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._at_start = all(token_id in tokenizer.special_ids for token_id in prompt_ids)
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """Return the text that this token completes; often empty inside a character of several tokens."""
        data, self._at_start = self._tokenizer.piece(
            token_id, skip_special_tokens=self._skip_special_tokens, at_start=self._at_start
        )
        return self._utf8.decode(data)

    def flush(self) -> str:
        """End the stream and return U+FFFD for an incomplete character that was held back, else ""."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text
