"""Tokenizers from Hugging Face's `tokenizer.json`, run by the `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from tokenizers import Tokenizer as RustTokenizer

from antiphon.errors import TokenizerError, UnsupportedError
from antiphon.regular_file import read_regular, read_regular_text
from antiphon.text.tokenization.bpe import encoded
from antiphon.text.tokenization.byte_level import spelled_bytes
from antiphon.text.tokenization.file_pipeline import can_cut, length_bound
from antiphon.text.tokenization.long_text import (
    SEGMENT_CHARACTERS,
    LengthBound,
    check_count,
    check_uncut,
    segments,
)
from antiphon.text.tokenization.sentencepiece import BYTE_SPELLING, SPACE
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer
from antiphon.text.tokenization.vocabulary import check_encodable, end_ids

#: Spellings tried in order if the configuration does not name the token.
BOS_SPELLINGS = ("<s>", "<bos>", "<|begin_of_text|>", "[CLS]")
EOS_SPELLINGS = ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "[SEP]")
UNKNOWN_SPELLINGS = ("<unk>", "[UNK]")
PAD_SPELLINGS = ("<pad>", "[PAD]", "<|pad|>")


def tokenizer_from_file(tokenizer_json: Path, config: Path | Mapping[str, Any] | None = None) -> Tokenizer:
    """Return the tokenizer in a `tokenizer.json`; `config` is its `tokenizer_config.json`, as a path or parsed.

    The file's own post-processor adds the begin and end tokens around a text. Truncation and padding are turned off:
    only the caller decides whether to truncate a text.
    """
    try:
        rust = RustTokenizer.from_buffer(read_regular(tokenizer_json))
    except Exception as error:
        raise TokenizerError(f"{tokenizer_json} is no usable tokenizer.json: {error}") from error
    if isinstance(config, Path):
        try:
            config = json.loads(read_regular_text(config))
        except (OSError, ValueError) as error:
            raise TokenizerError(
                f"{tokenizer_json.parent.name}/tokenizer_config.json cannot be read: {error}"
            ) from error
    if config is not None and not isinstance(config, Mapping):
        raise TokenizerError("tokenizer_config.json does not hold an object")
    return FileTokenizer(rust, config or {})


class FileTokenizer(Tokenizer):
    """A `tokenizers.Tokenizer` as a `Tokenizer`; decoding joins the bytes of tokens instead of using the library."""

    def __init__(self, rust: RustTokenizer, config: Mapping[str, Any]) -> None:
        rust.no_truncation()
        rust.no_padding()
        self._rust = rust
        self._lock = Lock()
        added = rust.get_added_tokens_decoder()
        special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        self._vocab_size = max(rust.get_vocab_size(), 1 + max(added, default=-1))
        decoder = json.loads(rust.decoder.__getstate__()) if rust.decoder is not None else {"type": "Fuse"}
        self._spelled, self.strips_leading_space = _token_decoder(decoder)
        # Added tokens are spelled as plain text; only SentencePiece spells spaces in them too.
        self._raw_ids = frozenset(added) if self._spelled is spelled_bytes else special_ids
        bos_id = self._named(config, "bos_token", BOS_SPELLINGS)
        eos_id = self._named(config, "eos_token", EOS_SPELLINGS)
        self.special = SpecialTokens(
            bos_id=bos_id,
            eos_id=eos_id,
            unknown_id=self._named(config, "unk_token", UNKNOWN_SPELLINGS),
            pad_id=self._named(config, "pad_token", PAD_SPELLINGS),
            eos_ids=end_ids((eos_id,), special_ids, self.id_of),
            special_ids=special_ids,
        )
        self.add_bos = bos_id is not None and rust.encode("").ids[:1] == [bos_id]

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        check_encodable(text)
        if max_tokens is not None and self._bound is not None:
            self._bound.check(text, max_tokens)
        if len(text) <= SEGMENT_CHARACTERS or not self._can_cut:
            check_uncut(text)
            ids = self._encode(text, add_special_tokens, parse_special)
            check_count(len(ids), max_tokens, is_exact=True)
            return ids
        before, after = self._around if add_special_tokens else ([], [])
        ids = list(before)
        for segment in segments(text):
            ids += self._encode(segment, False, parse_special)
            check_count(len(ids) + len(after), max_tokens)
        return ids + after

    def _encode(self, text: str, add_special_tokens: bool, parse_special: bool) -> list[int]:
        with self._lock:
            self._rust.encode_special_tokens = not parse_special
            return encoded(self._rust, text, add_special_tokens)

    @cached_property
    def _around(self) -> tuple[list[int], list[int]]:
        """Ids that the file's post-processor puts before and after a text."""
        plain, whole = self._encode("a", False, False), self._encode("a", True, False)
        size = len(plain)
        starts = [start for start in range(len(whole)) if whole[start : start + size] == plain]
        start = starts[0] if starts else 0
        return whole[:start], whole[start + size :]

    @cached_property
    def _can_cut(self) -> bool:
        return can_cut(self._rust)

    @cached_property
    def _bound(self) -> LengthBound | None:
        return length_bound(self._rust, (self.token_bytes(token_id) for token_id in range(self.vocab_size)))

    def token_bytes(self, token_id: int) -> bytes:
        self.check_id(token_id)
        text = self._rust.id_to_token(token_id)
        if text is not None and token_id in self._raw_ids:
            return text.encode("utf-8")
        return b"" if text is None else self._spelled(text)

    def id_of(self, token_text: str) -> int | None:
        return self._rust.token_to_id(token_text)

    def _named(self, config: Mapping[str, Any], key: str, spellings: tuple[str, ...]) -> int | None:
        if key in config:
            named = config[key]
            text = named.get("content") if isinstance(named, Mapping) else named
            return self.id_of(text) if isinstance(text, str) else None
        return next((token_id for text in spellings if (token_id := self.id_of(text)) is not None), None)


def _token_decoder(decoder: Mapping[str, Any]) -> tuple[Callable[[str], bytes], bool]:
    """Return the function from a token's text to its bytes, and whether decoding strips the first space of a text."""
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    kinds = [step["type"] for step in steps]
    unknown = set(kinds) - {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace", "WordPiece"}
    if unknown:
        raise UnsupportedError(f"tokenizer.json has a decoder of type {', '.join(sorted(unknown))}")
    if "ByteLevel" in kinds:
        return spelled_bytes, False
    if "WordPiece" in kinds:
        prefix = steps[kinds.index("WordPiece")].get("prefix", "##")
        return lambda text: _word_piece_bytes(text, prefix), True
    strip = any(step["type"] == "Strip" and step["content"] == " " and step["start"] > 0 for step in steps)
    prepends = any(step["type"] == "Metaspace" and step.get("prepend_scheme") != "never" for step in steps)
    return _sentence_piece_bytes, strip or prepends


def _sentence_piece_bytes(text: str) -> bytes:
    match = BYTE_SPELLING.fullmatch(text)
    return bytes([int(match[1], 16)]) if match else text.replace(SPACE, " ").encode("utf-8")


def _word_piece_bytes(text: str, prefix: str) -> bytes:
    spelled = text.removeprefix(prefix) if text.startswith(prefix) else " " + text
    return spelled.encode("utf-8")
