"""A vocabulary of the 256 bytes, an end token and control tokens."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.text.tokenization.long_text import check_count
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer

END = 256


class BytesTokenizer(Tokenizer):
    add_bos = False
    strips_leading_space = False

    def __init__(self, control_tokens: Sequence[str] = ()) -> None:
        self._control_tokens = [name.encode("utf-8") for name in control_tokens]
        special_ids = frozenset(range(END, self.vocab_size))
        self.special = SpecialTokens(eos_id=END, eos_ids=frozenset({END}), special_ids=special_ids)

    @property
    def vocab_size(self) -> int:
        return END + 1 + len(self._control_tokens)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        ids = list(text.encode("utf-8"))
        check_count(len(ids), max_tokens, is_exact=True)
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        self.check_id(token_id)
        if token_id < END:
            return bytes([token_id])
        return b"" if token_id == END else self._control_tokens[token_id - END - 1]

    def id_of(self, token_text: str) -> int | None:
        data = token_text.encode("utf-8")
        if data in self._control_tokens:
            return END + 1 + self._control_tokens.index(data)
        return data[0] if len(data) == 1 else None
