"""Tokens that mark prefix, suffix and middle for models trained to fill in the middle of a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon.text.tokenization.tokenizer import Tokenizer

#: Prefix, suffix and middle as families of models spell them: Qwen, StarCoder, CodeLlama, DeepSeek, CodeGemma, Granite.
SPELLINGS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)
#: Tokens that end the middle.
ENDS = ("<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<|repo_name|>", "<|file_sep|>", "<file_sep>", "▁<EOT>", "<EOT>")
#: Metadata keys of these tokens in GGUF files.
METADATA_KEYS = ("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id")
METADATA_ENDS = ("fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id")


@dataclass(frozen=True)
class FillInMiddle:
    """Ids of the three markers, and of the tokens that end the middle besides the model's end tokens."""

    prefix: int
    suffix: int
    middle: int
    ends: frozenset[int] = frozenset()

    def prompt(self, before: list[int], after: list[int], bos_id: int | None = None) -> list[int]:
        """Return the prompt after which a model generates the text between the two."""
        start = [] if bos_id is None else [bos_id]
        return [*start, self.prefix, *before, self.suffix, *after, self.middle]


def fill_in_middle(tokenizer: Tokenizer, metadata: Mapping[str, Any]) -> FillInMiddle | None:
    """Return the markers by the GGUF metadata, else by the vocabulary, or None if the model has no such tokens."""
    size = tokenizer.vocab_size
    listed = [metadata.get(f"tokenizer.ggml.{key}") for key in (*METADATA_KEYS, *METADATA_ENDS)]
    known = [token if isinstance(token, int) and 0 <= token < size else None for token in listed]
    spelled_ends = [tokenizer.id_of(spelling) for spelling in ENDS]
    ends = frozenset(token for token in (*known[3:], *spelled_ends) if token is not None)
    for prefix, suffix, middle in (known[:3], *([tokenizer.id_of(text) for text in form] for form in SPELLINGS)):
        if prefix is not None and suffix is not None and middle is not None:
            return FillInMiddle(prefix, suffix, middle, ends | {prefix, suffix, middle})
    return None
