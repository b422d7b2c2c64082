"""Text from a stream of tokens, as early as it is certain and never taken back."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from antiphon.text.tokenization.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """Turns token ids into text one at a time.

    What all `push` calls and the final `flush` return, joined, equals `tokenizer.decode` of all ids. No call returns
    part of a character: bytes that may still become one are kept back, bytes that cannot are U+FFFD at once.

    `prompt_ids` are the tokens before the stream, if it continues a text: a first token that begins with a space then
    keeps it where `decode` of prompt and stream together would.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True, prompt_ids: Iterable[int] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._at_start = all(token_id in tokenizer.special_ids for token_id in prompt_ids)
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that this token makes certain; often empty inside a character of several tokens."""
        data, self._at_start = self._tokenizer.piece(
            token_id, skip_special_tokens=self._skip_special_tokens, at_start=self._at_start
        )
        return self._utf8.decode(data)

    def flush(self) -> str:
        """End of the stream: what was kept back can no longer be completed."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text
