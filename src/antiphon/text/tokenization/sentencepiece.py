"""SentencePiece BPE: pairs merge in the order of their scores, and text outside the vocabulary falls back to bytes.

Kudo and Richardson, "SentencePiece" (2018); the vocabularies of Llama 2, Mistral and Gemma.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise

from antiphon.errors import TokenizerError
from antiphon.text.tokenization.long_text import LengthBound, segments
from antiphon.text.tokenization.merging import merged
from antiphon.text.tokenization.tokenizer import SpecialTokens
from antiphon.text.tokenization.vocabulary import TokenType, Vocabulary, VocabularyTokenizer

SPACE = "\u2581"
BYTE_SPELLING = re.compile(r"<0x([0-9A-Fa-f]{2})>")
CACHED_WORDS = 1 << 16
CACHED_WORD_LENGTH = 64


class SentencePieceTokenizer(VocabularyTokenizer):
    """A tokenizer that merges characters exactly as SentencePiece does: best score first, leftmost on a tie.

    Spaces are spelled `▁`. With `space_prefix`, one is put before each run of text. Merging never produces control,
    unknown or byte tokens.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        scores: Sequence[float],
        special: SpecialTokens,
        *,
        space_prefix: bool,
        prefix_ids: tuple[int, ...] = (),
        suffix_ids: tuple[int, ...] = (),
    ) -> None:
        if len(scores) != len(vocabulary):
            raise TokenizerError(f"the vocabulary has {len(vocabulary)} tokens but {len(scores)} scores")
        super().__init__(
            vocabulary, special, prefix_ids=prefix_ids, suffix_ids=suffix_ids, strips_leading_space=space_prefix
        )
        self._space_prefix = space_prefix
        self._scores = scores
        if any(score != score for score in scores):
            raise TokenizerError("the vocabulary has a score that is not a number")
        self._byte_ids = self._find_byte_ids()
        if not self._byte_ids and special.unknown_id is None:
            raise TokenizerError("the vocabulary has neither byte tokens nor an unknown token")
        self._words: dict[str, list[int]] = {}

    def respell(self, text: str) -> str:
        return text.replace(" ", SPACE)

    def encode_run(self, text: str, after_token: bool) -> list[int]:
        if self._space_prefix and after_token:
            text = SPACE + text
        ids: list[int] = []
        words = self._words
        for word in self._word_start.split(text):
            found = words.get(word)
            if found is None:
                found = self._encode_word(word)
                if len(word) <= CACHED_WORD_LENGTH:
                    if len(words) >= CACHED_WORDS:
                        words.clear()
                    words[word] = found
            ids.extend(found)
        return ids

    def segments(self, run: str) -> Iterator[str]:
        return segments(run, self._word_start)

    def length_bound(self) -> LengthBound | None:
        """Return the bound for respelled text, or None if byte tokens are missing.

        Without all byte tokens, one unknown token stands for any number of characters.
        """
        if len(self._byte_ids) < 256:
            return None
        spelled = (text.encode("utf-8", "surrogatepass") for text in self.vocabulary.tokens)
        return LengthBound(chain(spelled, (bytes([byte]) for byte in range(256))))

    def token_bytes(self, token_id: int) -> bytes:
        self.check_id(token_id)
        text = self.vocabulary.tokens[token_id]
        kind = self.vocabulary.types[token_id]
        if kind == TokenType.BYTE:
            return bytes([int(text[3:5], 16)])
        if kind in (TokenType.NORMAL, TokenType.UNUSED):
            text = text.replace(SPACE, " ")
        return text.encode("utf-8")

    def _find_byte_ids(self) -> dict[int, int]:
        byte_ids: dict[int, int] = {}
        for token_id in self.vocabulary.of_types(TokenType.BYTE):
            match = BYTE_SPELLING.fullmatch(self.vocabulary.tokens[token_id])
            if match is None:
                raise TokenizerError(
                    f"byte token {token_id} is spelled {self.vocabulary.tokens[token_id]!r}, not like '<0x0A>'"
                )
            byte_ids[int(match[1], 16)] = token_id
        return byte_ids

    @cached_property
    def _priorities(self) -> dict[str, float]:
        """Priority of each piece that merging may produce: all tokens but control, unknown, unused and byte tokens."""
        left_out = {TokenType.CONTROL, TokenType.UNKNOWN, TokenType.UNUSED, TokenType.BYTE}
        types, scores = self.vocabulary.types, self._scores
        return {text: -scores[token] for text, token in self.vocabulary.ids.items() if types[token] not in left_out}

    @cached_property
    def _word_start(self) -> re.Pattern[str]:
        """Positions that no piece crosses: before a `▁` whose left neighbour precedes `▁` in no piece.

        Words between these positions merge independently of each other, so each is merged once and cached.
        """
        joined = {SPACE}
        for piece in self._priorities:
            if piece.find(SPACE, 1) > 0:
                joined.update(left for left, right in pairwise(piece) if right == SPACE)
        barred = "".join(re.escape(character) for character in sorted(joined))
        return re.compile(f"(?<=[^{barred}])(?={SPACE})")

    def _encode_word(self, word: str) -> list[int]:
        """Merge the characters of `word` until no neighbours form a piece, and return the ids of the pieces."""
        ids: list[int] = []
        priorities, known = self._priorities, self.vocabulary.ids
        for piece in merged(word, priorities.get):
            if piece in priorities:
                ids.append(known[piece])
            else:
                self._append_bytes(ids, piece)
        return ids

    def _append_bytes(self, ids: list[int], text: str) -> None:
        """Append the byte tokens of `text`, or else one unknown token per run of unknown text."""
        byte_ids = [self._byte_ids.get(byte) for byte in text.encode("utf-8")]
        if None not in byte_ids:
            ids.extend(token_id for token_id in byte_ids if token_id is not None)
        elif self.special.unknown_id is not None and ids[-1:] != [self.special.unknown_id]:
            ids.append(self.special.unknown_id)
