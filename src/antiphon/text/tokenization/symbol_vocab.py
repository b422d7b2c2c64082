"""A vocabulary in which every token is one character, such as the phonemes of a speech model."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.text.tokenization.long_text import check_count
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer


class SymbolTokenizer(Tokenizer):
    """A tokenizer from characters to ids and back. `encode` drops unknown characters and puts a pad at both ends."""

    add_bos = False
    strips_leading_space = False

    def __init__(self, symbols: Mapping[str, int], pad_id: int = 0) -> None:
        self._ids = dict(symbols)
        self._symbols = {number: symbol for symbol, number in symbols.items()}
        self._pad = pad_id
        self.special = SpecialTokens(pad_id=pad_id, special_ids=frozenset({pad_id}))

    @property
    def vocab_size(self) -> int:
        return max(self._symbols, default=self._pad) + 1

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        ids = [self._ids[symbol] for symbol in text if symbol in self._ids]
        check_count(len(ids), max_tokens, is_exact=True)
        return [self._pad, *ids, self._pad] if add_special_tokens else ids

    def token_bytes(self, token_id: int) -> bytes:
        return self._symbols.get(token_id, "").encode()

    def id_of(self, token_text: str) -> int | None:
        return self._ids.get(token_text)
