"""WordPiece (BERT): words are split into the longest tokens from the left, or are unknown.

Devlin et al., "BERT" (2018). Text is lower-cased and loses its accents, as in the uncased vocabularies.
"""

from __future__ import annotations

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from antiphon.errors import TokenizerError
from antiphon.text.tokenization.bpe import encoded
from antiphon.text.tokenization.tokenizer import SpecialTokens
from antiphon.text.tokenization.vocabulary import TokenType, Vocabulary, VocabularyTokenizer

SPACE = "\u2581"
CONTINUATION = "##"


class WordPieceTokenizer(VocabularyTokenizer):
    """A WordPiece tokenizer for vocabularies spelled as in GGUF: `▁` starts a word, tokens without it continue one."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        special: SpecialTokens,
        *,
        prefix_ids: tuple[int, ...] = (),
        suffix_ids: tuple[int, ...] = (),
    ) -> None:
        super().__init__(vocabulary, special, prefix_ids=prefix_ids, suffix_ids=suffix_ids, strips_leading_space=True)
        if special.unknown_id is None:
            raise TokenizerError("a WordPiece vocabulary needs an unknown token, and this one names none")
        spellings = [self._spelling(token_id) for token_id in range(len(vocabulary))]
        ids = dict(zip(reversed(spellings), range(len(spellings) - 1, -1, -1), strict=True))
        self._rust = RustTokenizer(WordPiece(ids, unk_token=spellings[special.unknown_id]))
        self._rust.normalizer = normalizers.BertNormalizer()
        self._rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def encode_run(self, text: str, after_token: bool) -> list[int]:
        return encoded(self._rust, text)

    def token_bytes(self, token_id: int) -> bytes:
        self.check_id(token_id)
        text = self.vocabulary.tokens[token_id]
        if self.vocabulary.types[token_id] == TokenType.NORMAL:
            text = text.replace(SPACE, " ", 1)
        return text.encode("utf-8")

    def _spelling(self, token_id: int) -> str:
        """Return the token as BERT's own vocabulary file spells it."""
        text = self.vocabulary.tokens[token_id]
        if self.vocabulary.types[token_id] != TokenType.NORMAL:
            return text
        return text[1:] if text.startswith(SPACE) else CONTINUATION + text
