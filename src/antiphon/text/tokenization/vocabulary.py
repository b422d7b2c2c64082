"""`Vocabulary`: a model's tokens with their types, and the base class of tokenizers over it."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate
from typing import overload

from antiphon.errors import TokenizerError
from antiphon.text.tokenization.long_text import SEGMENT_CHARACTERS, LengthBound, check_count, segments
from antiphon.text.tokenization.special_splitter import SpecialSplitter
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer


class TokenType(IntEnum):
    """Types of token, numbered as in GGUF's `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


SPECIAL_TYPES = (TokenType.CONTROL, TokenType.UNKNOWN)

#: Spellings of tokens that end a turn or a text in published chat formats.
END_SPELLINGS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<turn|>",
    "<eos>",
    "</s>",
    "<EOT>",
    "[EOS]",
    "[EOT]",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
)


def end_ids(
    known: Iterable[int | None], special_ids: frozenset[int], id_of: Callable[[str], int | None]
) -> frozenset[int]:
    """Return the ids that end a generation: the `known` ones, and special tokens with a well-known end spelling.

    In formats with `<|return|>`, `<|end|>` only closes one message of an answer and is left out.
    """
    found = {token_id for token_id in known if token_id is not None}
    by_spelling = {text: token_id for text in END_SPELLINGS if (token_id := id_of(text)) in special_ids}
    if "<|return|>" in by_spelling:
        by_spelling.pop("<|end|>", None)
    return frozenset(found | {token_id for token_id in by_spelling.values() if token_id is not None})


class TokenTexts(Sequence[str]):
    """A sequence of short strings stored as one byte string, in a tenth of a list's memory."""

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self._bytes = b"".join(encoded)
        self._ends = array("q", accumulate(map(len, encoded)))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        begin = self._ends[position - 1] if position else 0
        return self._bytes[begin : self._ends[position]].decode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens as spelled in the file, and their types; `types` has one entry per token."""

    tokens: Sequence[str]
    types: Sequence[int]

    def __post_init__(self) -> None:
        if not self.tokens:
            raise TokenizerError("the vocabulary is empty")
        if len(self.types) != len(self.tokens):
            raise TokenizerError(f"the vocabulary has {len(self.tokens)} tokens but {len(self.types)} token types")

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by spelling; equal spellings have the first one's id."""
        return dict(zip(reversed(self.tokens), range(len(self.tokens) - 1, -1, -1), strict=True))

    def forget_ids(self) -> None:
        """Free `ids`; the next access builds them again."""
        self.__dict__.pop("ids", None)

    def of_types(self, *types: TokenType) -> list[int]:
        return [token_id for token_id, kind in enumerate(self.types) if kind in types]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self.of_types(*SPECIAL_TYPES))


class VocabularyTokenizer(Tokenizer):
    """A tokenizer over a `Vocabulary`, which splits off special tokens and encodes the runs of text between them."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        special: SpecialTokens,
        *,
        prefix_ids: tuple[int, ...] = (),
        suffix_ids: tuple[int, ...] = (),
        strips_leading_space: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self.special = special
        self.strips_leading_space = strips_leading_space
        self.prefix_ids = prefix_ids
        self.suffix_ids = suffix_ids
        self.add_bos = special.bos_id is not None and prefix_ids[:1] == (special.bos_id,)

    @abstractmethod
    def encode_run(self, text: str, after_token: bool) -> list[int]:
        """Return the ids of a non-empty, respelled run without special tokens.

        `after_token` says that the run starts the text or follows a special token.
        """

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def id_of(self, token_text: str) -> int | None:
        return self.vocabulary.ids.get(token_text)

    def length_bound(self) -> LengthBound | None:
        """Return a bound that rejects long texts by their bytes, or None if the vocabulary allows no such bound."""
        return None

    def segments(self, run: str) -> Iterator[str]:
        """Yield parts of the run that can be encoded independently."""
        return segments(run)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        check_encodable(text)
        splitter = self._every_special if parse_special else self._user_defined
        ids = list(self.prefix_ids) if add_special_tokens else []
        self._encode_into(ids, text, splitter, "", max_tokens)
        if add_special_tokens:
            ids.extend(self.suffix_ids)
        check_count(len(ids), max_tokens, is_exact=True)
        return ids

    def encode_guarded(self, text: str, guard: str, max_tokens: int | None = None) -> list[int]:
        check_encodable(text)
        ids: list[int] = []
        self._encode_into(ids, text, self._every_special, guard, max_tokens)
        check_count(len(ids), max_tokens, is_exact=True)
        return ids

    def _encode_into(
        self, ids: list[int], text: str, splitter: SpecialSplitter, guard: str, max_tokens: int | None
    ) -> None:
        """Append the ids of `text` without its guards; enforce `max_tokens` only on long texts."""
        respelled = self.respell(text)
        if len(text) <= SEGMENT_CHARACTERS:
            max_tokens = None
        if max_tokens is not None and self._length_bound is not None:
            self._length_bound.check(respelled.replace(guard, "") if guard else respelled, max_tokens - len(ids))
        after_token = True
        for part in splitter.split(respelled):
            if isinstance(part, int):
                ids.append(part)
                after_token = True
            elif run := part.replace(guard, "") if guard else part:
                for segment in self.segments(run):
                    ids.extend(self.encode_run(segment, after_token))
                    after_token = False
                    check_count(len(ids), max_tokens)
            check_count(len(ids), max_tokens)

    @cached_property
    def _length_bound(self) -> LengthBound | None:
        return self.length_bound()

    @cached_property
    def _control(self) -> SpecialSplitter:
        return self._splitter(*SPECIAL_TYPES)

    @cached_property
    def _every_special(self) -> SpecialSplitter:
        return self._splitter(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)

    @cached_property
    def _user_defined(self) -> SpecialSplitter:
        return self._splitter(TokenType.USER_DEFINED)

    def _splitter(self, *types: TokenType) -> SpecialSplitter:
        tokens = self.vocabulary.tokens
        return SpecialSplitter(
            {self.respell(tokens[token_id]): token_id for token_id in self.vocabulary.of_types(*types)}
        )


def check_encodable(text: str) -> None:
    """Raise `TokenizerError` for a text with a lone surrogate, which has no UTF-8 encoding."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"the text has a lone surrogate U+{ord(text[error.start]):04X} at character {error.start}"
        ) from None
