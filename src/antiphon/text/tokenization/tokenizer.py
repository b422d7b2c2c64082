"""`Tokenizer`: text to token ids and back, whatever file the vocabulary came in."""

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
    """Ids with a meaning of their own. `special_ids` are left out of text shown to people."""

    bos_id: int | None = None
    eos_id: int | None = None
    unknown_id: int | None = None
    pad_id: int | None = None
    #: Every id that ends a generation: `eos_id`, end of turn, end of message.
    eos_ids: frozenset[int] = frozenset()
    #: Control and unknown tokens. User-defined tokens such as `<tool_call>` are text and are not among them.
    special_ids: frozenset[int] = frozenset()


class Tokenizer(ABC):
    """One vocabulary. Immutable once built and safe to share between threads.

    Decoding is defined on bytes: `decode(ids)` is the tokens' bytes laid end to end and read as UTF-8, invalid
    sequences replaced. So a stream of tokens and the whole list give the same text.
    """

    special: SpecialTokens
    #: Whether `encode(..., add_special_tokens=True)` starts with `bos_id`.
    add_bos: bool
    #: Whether encoding puts a space before the text, so that decoding from the start takes one away.
    strips_leading_space: bool

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """One more than the largest id."""

    @abstractmethod
    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        """Ids of `text`.

        `add_special_tokens` adds what the model expects around a text (such as a begin-of-text token).
        `parse_special` turns spellings of control tokens into those tokens; without it they are plain text, so text
        from a stranger cannot forge a turn. User-defined tokens are recognised in both cases.
        A text of more than `max_tokens` is a `TooManyTokensError`, raised as soon as that is certain: such a text is
        never encoded whole. Other threads run while a long text is encoded.
        """

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """The raw bytes the token stands for; they need not be whole UTF-8 characters."""

    @abstractmethod
    def id_of(self, token_text: str) -> int | None:
        """Id of the token spelled exactly so in the vocabulary, or None."""

    def respell(self, text: str) -> str:
        """The text, character by character, in the spelling in which special tokens are looked for."""
        return text

    def guarded(self, text: str, guard: str) -> str:
        """The text with `guard`, a character that is not in it, put into every spelling of a control token.

        It is put at the end as well where that end is the beginning of a spelling.
        """
        cuts = {start + 1 for start in self._control.starts(self.respell(text))}
        end = text.rstrip()
        if self._control.ends_in_part(self.respell(end)):
            cuts.add(len(end))
        bounds = [0, *sorted(cuts), len(text)]
        return guard.join(text[left:right] for left, right in pairwise(bounds))

    def encode_guarded(self, text: str, guard: str, max_tokens: int | None = None) -> list[int]:
        """Ids of a text whose parts went through `guarded`: the guards are left out, what they broke is plain text.

        Control tokens that are spelled without a guard are those tokens. Without any guard it is
        `encode(text, add_special_tokens=False)`.
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
        """Finds spellings of control tokens."""
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
        """Text of `ids`, as if they stood at the beginning of a text."""
        pieces: list[bytes] = []
        at_start = True
        for token_id in ids:
            piece, at_start = self.piece(token_id, skip_special_tokens=skip_special_tokens, at_start=at_start)
            pieces.append(piece)
        return b"".join(pieces).decode("utf-8", errors="replace")

    def piece(self, token_id: int, *, skip_special_tokens: bool, at_start: bool) -> tuple[bytes, bool]:
        """What the token adds to the decoded bytes, and whether the text has still not begun after it.

        A text begins with its first token that is not special; special tokens before it leave the beginning open.
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
