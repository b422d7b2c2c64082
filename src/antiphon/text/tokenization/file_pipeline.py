"""Properties of a `tokenizer.json` pipeline: whether long texts can be split, and a bound on their tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import BPE

from antiphon.text.tokenization.long_text import WORD_END, LengthBound
from antiphon.text.tokenization.pre_tokenizers import PRE_TOKENIZERS

#: Normalizers that change each character alone, or together with combining marks after it.
LOCAL_NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer"}
#: Pre-tokenizers that end a word at every `WORD_END`.
WORD_PRE_TOKENIZERS = {"BertPreTokenizer", "Whitespace"}
#: Pre-tokenizers that only split words further.
FURTHER_PRE_TOKENIZERS = {"Digits", "Punctuation"}
KNOWN_PATTERNS = {pattern for kind in PRE_TOKENIZERS.values() for pattern in kind.patterns}
#: Bytes of blanks, which an added token that strips its surroundings may remove.
BLANKS = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\xe1\x9a\x80\xe2\x81\x9f\xe3"


def can_cut(rust: RustTokenizer) -> bool:
    """Return whether the parts of a text split at `WORD_END` encode to the same tokens as the whole text."""
    normalizers = _steps(rust.normalizer, "normalizers")
    if not all(step["type"] in LOCAL_NORMALIZERS for step in normalizers):
        return False
    for token in rust.get_added_tokens_decoder().values():
        if WORD_END.search(token.content):
            return False
        edges = f"a{token.content[:1]}" if token.lstrip else "", f"{token.content[-1:]}a" if token.rstrip else ""
        if any(edge.isalpha() and len(edge) > 1 for edge in edges):
            return False
    steps = _steps(rust.pre_tokenizer, "pretokenizers")
    ends_words = [_ends_words(step) for step in steps]
    return any(ends_words) and None not in ends_words


def length_bound(rust: RustTokenizer, tokens: Iterable[bytes]) -> LengthBound | None:
    """Return the bound for byte-level BPE, or None if a token can stand for text of any length."""
    model = rust.model
    kinds = [step["type"] for step in _steps(rust.pre_tokenizer, "pretokenizers")]
    normalizers = [step["type"] for step in _steps(rust.normalizer, "normalizers")]
    if not isinstance(model, BPE) or "ByteLevel" not in kinds or not set(normalizers) <= {"NFC"}:
        return None
    if model.unk_token is not None or model.continuing_subword_prefix or model.end_of_word_suffix:
        return None
    strips = any(token.lstrip or token.rstrip for token in rust.get_added_tokens_decoder().values())
    return LengthBound(tokens, is_composed="NFC" in normalizers, dropped=BLANKS if strips else b"")


def _steps(part: Any, name: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    state = json.loads(part.__getstate__())
    steps: list[Mapping[str, Any]] = state[name] if state["type"] == "Sequence" else [state]
    return steps


def _ends_words(step: Mapping[str, Any]) -> bool | None:
    """Return whether the step ends a word at every `WORD_END`, or None if unknown or if it may join words there."""
    kind = step["type"]
    if kind == "ByteLevel":
        return None if step.get("add_prefix_space") else bool(step.get("use_regex", True))
    if kind == "Split":
        pattern = step["pattern"].get("Regex")
        is_known = pattern in KNOWN_PATTERNS and step.get("behavior") == "Isolated" and not step.get("invert")
        return True if is_known and pattern not in PARTIAL_PATTERNS else (False if is_known else None)
    if kind in WORD_PRE_TOKENIZERS:
        return True
    return False if kind in FURTHER_PRE_TOKENIZERS else None


#: Patterns of pre-tokenizers with several, which do not split at words on their own.
PARTIAL_PATTERNS = {pattern for kind in PRE_TOKENIZERS.values() if len(kind.patterns) > 1 for pattern in kind.patterns}
