"""Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM): ranked merges over bytes spelled as characters."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Regex, normalizers, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import BPE

from antiphon.errors import TokenizerError
from antiphon.text.tokenization.byte_level import spelled_bytes
from antiphon.text.tokenization.long_text import LengthBound
from antiphon.text.tokenization.pre_tokenizers import PreTokenizer
from antiphon.text.tokenization.tokenizer import SpecialTokens
from antiphon.text.tokenization.vocabulary import TokenType, Vocabulary, VocabularyTokenizer


class ByteLevelBPETokenizer(VocabularyTokenizer):
    """A tokenizer whose merges run in the `tokenizers` library.

    Special tokens are split here instead of in the library, so that parsing them can be turned off. `merges` are pairs
    written "left right", best first; each side and their concatenation must be tokens.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Sequence[str],
        pre: PreTokenizer,
        special: SpecialTokens,
        *,
        prefix_ids: tuple[int, ...] = (),
        suffix_ids: tuple[int, ...] = (),
    ) -> None:
        super().__init__(vocabulary, special, prefix_ids=prefix_ids, suffix_ids=suffix_ids)
        self._rust = RustTokenizer(_merging_model(vocabulary, merges, pre.whole_words))
        vocabulary.forget_ids()  # the library holds the ids too
        self._is_composed = pre.composed
        if pre.composed:
            self._rust.normalizer = normalizers.NFC()
        splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in pre.patterns]
        to_characters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._rust.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_characters])

    def id_of(self, token_text: str) -> int | None:
        return self._rust.token_to_id(token_text)

    def encode_run(self, text: str, after_token: bool) -> list[int]:
        return encoded(self._rust, text)

    def length_bound(self) -> LengthBound:
        tokens = (self.token_bytes(token_id) for token_id in range(self.vocab_size))
        return LengthBound(tokens, is_composed=self._is_composed)

    def token_bytes(self, token_id: int) -> bytes:
        self.check_id(token_id)
        text = self.vocabulary.tokens[token_id]
        if self.vocabulary.types[token_id] in (TokenType.NORMAL, TokenType.BYTE):
            return spelled_bytes(text)
        return text.encode("utf-8")


def encoded(rust: RustTokenizer, text: str, add_special_tokens: bool = False) -> list[int]:
    """Return the ids of a text. Only the library's batch calls let other threads run."""
    return rust.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids


def _merging_model(vocabulary: Vocabulary, merges: Sequence[str], whole_words: bool) -> BPE:
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    try:
        return BPE(vocabulary.ids, pairs, ignore_merges=whole_words)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is not an `Exception`
        _find_bad_merge(vocabulary, merges)
        raise TokenizerError(f"the vocabulary of {len(vocabulary)} tokens cannot be used: {error}") from error


def _find_bad_merge(vocabulary: Vocabulary, merges: Sequence[str]) -> None:
    for rank, merge in enumerate(merges):
        sides = merge.split(" ")
        if len(sides) != 2 or not all(sides):
            raise TokenizerError(f"merge {rank} of {len(merges)} is {merge!r}, not two tokens with a space between")
        for text in (*sides, "".join(sides)):
            if text not in vocabulary.ids:
                where = f"merge {rank} of {len(merges)} is {merge!r}"
                raise TokenizerError(f"{where}, but {text!r} is not among the {len(vocabulary)} tokens")
