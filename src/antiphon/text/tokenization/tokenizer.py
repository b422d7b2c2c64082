"""`Tokenizer`: text to token ids and back, for every format of vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from antiphon.errors import TokenizerError
from antiphon.text.tokenization.long_text import check_count
from antiphon.text.tokenization.special_splitter import SpecialSplitter


@dataclass(frozen=True)
class SpecialTokens:
    """Ids with a special meaning. `special_ids` are left out of text shown to people."""

    bos_id: int | None = None
    eos_id: int | None = None
    unknown_id: int | None = None
    pad_id: int | None = None
    #: Ids that end a generation: `eos_id`, end of turn, end of message.
    eos_ids: frozenset[int] = frozenset()
    #: Ids of control and unknown tokens; user-defined tokens such as `<tool_call>` are text and not included.
    special_ids: frozenset[int] = frozenset()


class Tokenizer(ABC):
    """A vocabulary with encoding and decoding. Immutable once built, and thread-safe.

    Decoding is defined on bytes: `decode(ids)` concatenates the tokens' bytes and decodes them as UTF-8, with invalid
    sequences replaced. So a stream of tokens and the whole list give the same text.
    """

    special: SpecialTokens
    #: Whether `encode(..., add_special_tokens=True)` starts with `bos_id`.
    add_bos: bool
    #: Whether encoding puts a space before the text, which decoding from the start removes.
    strips_leading_space: bool

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Largest id plus one."""

    @abstractmethod
    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        """Return the ids of `text`.

        `add_special_tokens` adds the tokens that the model expects around a text, such as begin of text.
        `parse_special` turns spellings of control tokens into these tokens; without it they are plain text, so
        untrusted text cannot forge a turn. User-defined tokens are recognised in both cases.

        Raise `TooManyTokensError` for a text of more than `max_tokens`, as soon as that is certain, before all of it is
        encoded. Other threads run while a long text is encoded.
        """

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that the token stands for; they may be part of a UTF-8 character."""

    @abstractmethod
    def id_of(self, token_text: str) -> int | None:
        """Return the id of the token with exactly this spelling in the vocabulary, or None."""

    def respell(self, text: str) -> str:
        """Return the text in the spelling that special tokens are searched in, with the same length."""
        return text

    def guarded(self, text: str, guard: str) -> str:
        """Return the text with `guard`, a character not in the text, inside every spelling of a control token.

        If the text ends with the beginning of a spelling, `guard` is inserted after that end too.
        """
        cuts = {start + 1 for start in self._control.starts(self.respell(text))}
        end = text.rstrip()
        if self._control.ends_in_part(self.respell(end)):
            cuts.add(len(end))
        bounds = [0, *sorted(cuts), len(text)]
        return guard.join(text[left:right] for left, right in pairwise(bounds))

    def encode_guarded(self, text: str, guard: str, max_tokens: int | None = None) -> list[int]:
        """Return the ids of a text whose parts went through `guarded`.

        Guards are dropped, and the spellings that they broke are plain text. Control tokens spelled without a guard
        become control tokens. A text without guards is encoded like `encode(text, add_special_tokens=False)`.
        """
        if guard not in text:
            return self.encode(text, add_special_tokens=False, max_tokens=max_tokens)
        ids: list[int] = []
        for part in self._control.split(text):
            plain = [part] if isinstance(part, int) else self._encode_plain(part.replace(guard, ""), max_tokens)
            ids += plain
            check_count(len(ids), max_tokens)
        return ids

    def _encode_plain(self, text: str, max_tokens: int | None) -> list[int]:
        return self.encode(text, add_special_tokens=False, parse_special=False, max_tokens=max_tokens)

    @cached_property
    def _control(self) -> SpecialSplitter:
        return SpecialSplitter(
            {self.token_bytes(token).decode("utf-8", errors="replace"): token for token in self.special_ids}
        )

    @property
    def eos_ids(self) -> frozenset[int]:
        return self.special.eos_ids

    @property
    def special_ids(self) -> frozenset[int]:
        return self.special.special_ids

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`, decoded as the beginning of a text."""
        pieces: list[bytes] = []
        at_start = True
        for token_id in ids:
            piece, at_start = self.piece(token_id, skip_special_tokens=skip_special_tokens, at_start=at_start)
            pieces.append(piece)
        return b"".join(pieces).decode("utf-8", errors="replace")

    def piece(self, token_id: int, *, skip_special_tokens: bool, at_start: bool) -> tuple[bytes, bool]:
        """Return the bytes that the token adds to the decoded text, and whether the text has still not begun.

        A text begins with its first token that is not special.
        """
        if token_id in self.special.special_ids:
            return b"" if skip_special_tokens else self.token_bytes(token_id), at_start
        data = self.token_bytes(token_id)
        if at_start and self.strips_leading_space:
            data = data.removeprefix(b" ")
        return data, False

    def check_id(self, token_id: int) -> None:
        """Raise `TokenizerError` unless the id belongs to the vocabulary."""
        if not 0 <= token_id < self.vocab_size:
            raise TokenizerError(f"token id {token_id} is outside the vocabulary of {self.vocab_size} tokens")
