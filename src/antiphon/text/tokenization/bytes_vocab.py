"""A vocabulary of the 256 bytes and an end token."""

from __future__ import annotations

from antiphon.text.tokenization.long_text import check_count
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer

END = 256


class BytesTokenizer(Tokenizer):
    """Every byte of a text is a token."""

    special = SpecialTokens(eos_id=END, eos_ids=frozenset({END}), special_ids=frozenset({END}))
    add_bos = False
    strips_leading_space = False

    @property
    def vocab_size(self) -> int:
        return END + 1

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
        return b"" if token_id == END else bytes([token_id])

    def id_of(self, token_text: str) -> int | None:
        data = token_text.encode("utf-8")
        return data[0] if len(data) == 1 else None
