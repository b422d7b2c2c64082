"""Tokenizers from a GGUF file's `tokenizer.ggml.*` metadata."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.errors import TokenizerError, UnsupportedError
from antiphon.text.tokenization.bpe import ByteLevelBPETokenizer
from antiphon.text.tokenization.pre_tokenizers import pre_tokenizer
from antiphon.text.tokenization.sentencepiece import SentencePieceTokenizer
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer
from antiphon.text.tokenization.vocabulary import TokenTexts, TokenType, Vocabulary, end_ids
from antiphon.text.tokenization.wordpiece import WordPieceTokenizer

KEY = "tokenizer.ggml."


def tokenizer_from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer that a GGUF file describes.

    Raise `UnsupportedError` for an unknown kind or pre-tokenizer, and `TokenizerError` for an inconsistent vocabulary.
    """
    kind = metadata.get(f"{KEY}model")
    if kind is None:
        raise TokenizerError(f"the file has no {KEY}model, so no tokenizer")
    build = {"gpt2": _byte_level_bpe, "llama": _sentencepiece, "bert": _wordpiece}.get(str(kind))
    if build is None:
        raise UnsupportedError(f"tokenizer kind {str(kind)!r} is not supported; supported are gpt2, llama and bert")
    return build(_Metadata(metadata))


class _Metadata:
    """Validated access to the `tokenizer.ggml.*` keys."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        tokens = self.strings("tokens")
        types = self._list("token_type")
        self.vocabulary = Vocabulary(
            TokenTexts(tokens), _integers([TokenType.NORMAL] * len(tokens) if types is None else types)
        )

    def _list(self, name: str) -> list[Any] | None:
        value = self._metadata.get(KEY + name)
        if value is None:
            return None
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise TokenizerError(f"{KEY}{name} is {type(value).__name__}, not an array")
        return list(value)

    def _required(self, name: str) -> list[Any]:
        values = self._list(name)
        if values is None:
            raise TokenizerError(f"the file has no {KEY}{name}")
        return values

    def strings(self, name: str) -> list[str]:
        values = self._required(name)
        if not all(map(str.__instancecheck__, values)):
            index = next(index for index, value in enumerate(values) if not isinstance(value, str))
            raise TokenizerError(f"{KEY}{name}[{index}] is {type(values[index]).__name__}, not a string")
        return values

    def floats(self, name: str) -> list[float]:
        try:
            return list(map(float, self._required(name)))
        except (TypeError, ValueError, OverflowError) as error:
            raise TokenizerError(f"{KEY}{name} has an entry that is no number: {error}") from None

    def text(self, name: str, default: str) -> str:
        return str(self._metadata.get(KEY + name, default))

    def flag(self, name: str, default: bool) -> bool:
        return bool(self._metadata.get(KEY + name, default))

    def token_id(self, *names: str) -> int | None:
        """Return the id under the first of these keys that the file has, or None."""
        for name in names:
            value = self._metadata.get(f"{KEY}{name}_token_id")
            if value is None:
                continue
            try:
                token_id = int(value)
            except (TypeError, ValueError, OverflowError):
                raise TokenizerError(f"{KEY}{name}_token_id is {value!r}, not a number") from None
            if not 0 <= token_id < len(self.vocabulary):
                raise TokenizerError(
                    f"{KEY}{name}_token_id is {token_id}, outside the vocabulary of {len(self.vocabulary)} tokens"
                )
            return token_id
        return None

    def special(self, bos_id: int | None, eos_id: int | None, unknown_id: int | None) -> SpecialTokens:
        vocabulary = self.vocabulary
        ends = (eos_id, self.token_id("eot"), self.token_id("eom"))
        return SpecialTokens(
            bos_id=bos_id,
            eos_id=eos_id,
            unknown_id=unknown_id,
            pad_id=self.token_id("padding"),
            eos_ids=end_ids(ends, vocabulary.special_ids, vocabulary.ids.get),
            special_ids=vocabulary.special_ids,
        )

    def surroundings(self, special: SpecialTokens, add_bos: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids put before and after a text; `add_bos` is the default if the file has no such flag."""
        prefix = self.flag("add_bos_token", add_bos) and special.bos_id is not None
        suffix = self.flag("add_eos_token", False) and special.eos_id is not None
        return _maybe(special.bos_id, prefix), _maybe(special.eos_id, suffix)


def _maybe(token_id: int | None, wanted: bool) -> tuple[int, ...]:
    return (token_id,) if wanted and token_id is not None else ()


def _integers(values: list[Any]) -> array[int]:
    try:
        return array("i", map(int, values))
    except (TypeError, ValueError, OverflowError) as error:
        raise TokenizerError(f"{KEY}token_type has an entry that is no number: {error}") from None


def _byte_level_bpe(metadata: _Metadata) -> Tokenizer:
    pre = pre_tokenizer(metadata.text("pre", "default"))
    special = metadata.special(metadata.token_id("bos"), metadata.token_id("eos"), metadata.token_id("unknown"))
    prefix, suffix = metadata.surroundings(special, pre.add_bos)
    merges = metadata.strings("merges")
    return ByteLevelBPETokenizer(metadata.vocabulary, merges, pre, special, prefix_ids=prefix, suffix_ids=suffix)


def _sentencepiece(metadata: _Metadata) -> Tokenizer:
    special = metadata.special(metadata.token_id("bos"), metadata.token_id("eos"), metadata.token_id("unknown"))
    prefix, suffix = metadata.surroundings(special, add_bos=True)
    return SentencePieceTokenizer(
        metadata.vocabulary,
        metadata.floats("scores"),
        special,
        space_prefix=metadata.flag("add_space_prefix", True),
        prefix_ids=prefix,
        suffix_ids=suffix,
    )


def _wordpiece(metadata: _Metadata) -> Tokenizer:
    ids = metadata.vocabulary.ids
    start = metadata.token_id("cls", "bos")
    # GGUF misspells this key.
    end = metadata.token_id("seperator", "separator", "eos")
    unknown = metadata.token_id("unknown")
    start = ids.get("[CLS]") if start is None else start
    end = ids.get("[SEP]") if end is None else end
    special = metadata.special(start, end, ids.get("[UNK]") if unknown is None else unknown)
    prefix = _maybe(start, metadata.flag("add_bos_token", True))
    suffix = _maybe(end, metadata.flag("add_eos_token", True))
    return WordPieceTokenizer(metadata.vocabulary, special, prefix_ids=prefix, suffix_ids=suffix)
