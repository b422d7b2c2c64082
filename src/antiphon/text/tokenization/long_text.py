"""Long texts: encoded in segments, and rejected without encoding if their bytes alone prove them too long."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property

from antiphon.errors import TokenizerError, TooManyTokensError

#: Minimum characters per segment, if a text can be split.
SEGMENT_CHARACTERS = 16_384
#: Characters searched or counted at a time, so that other threads run in between.
WINDOW_CHARACTERS = 65_536
#: Maximum characters of a text that cannot be split: encoding takes some 80 bytes of memory per character.
MAX_UNCUT_CHARACTERS = 2 << 20
#: Maximum length of texts that are encoded without a check of their length first.
SHORT_CHARACTERS = 32_768
#: Tokens per window by which normalizing a text in windows can overestimate its length.
WINDOW_SLACK = 16

LETTER = r"[A-Za-z\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5]"
#: Positions where every known pre-tokenizer ends a word in any context, and where no normalization composes characters:
#: after a letter, before one space or mark followed by another letter.
WORD_END = re.compile(f"(?<={LETTER})(?=[ ,.\u3001\u3002\uff0c]{LETTER})")


def segments(text: str, boundary: re.Pattern[str] = WORD_END) -> Iterator[str]:
    """Yield the text in parts of at least `SEGMENT_CHARACTERS`, split where `boundary` matches the empty string.

    Raise `TokenizerError` if the text cannot be split and its rest is too long to be encoded whole.
    """
    start = 0
    while len(text) - start > SEGMENT_CHARACTERS:
        cut = _find(text, boundary, start + SEGMENT_CHARACTERS)
        if cut is None:
            break
        yield text[start:cut]
        start = cut
    rest = text[start:] if start else text
    check_uncut(rest)
    yield rest


def check_uncut(text: str) -> None:
    """Raise `TokenizerError` for a text that is too long to be encoded whole."""
    if len(text) > MAX_UNCUT_CHARACTERS:
        raise TokenizerError(
            f"the text has {len(text):,} characters without a place where it can be cut; "
            f"at most {MAX_UNCUT_CHARACTERS:,} are encoded"
        )


def tail(text: str, size: int) -> str:
    """Return the end of the text, at most `size` characters, from a word boundary on if possible."""
    if len(text) <= size:
        return text
    cut = _find(text, WORD_END, len(text) - size)
    return text[-size if cut is None else cut :]


def _find(text: str, boundary: re.Pattern[str], start: int) -> int | None:
    for begin in range(start, len(text), WINDOW_CHARACTERS):
        # Two more characters for the lookahead of the pattern.
        match = boundary.search(text, begin, begin + WINDOW_CHARACTERS + 2)
        if match is not None:
            return match.start()
    return None


def check_count(num_tokens: int, limit: int | None, is_exact: bool = False) -> None:
    """Raise `TooManyTokensError` if there are more tokens than the limit."""
    if limit is not None and num_tokens > limit:
        raise TooManyTokensError(num_tokens, limit, is_exact)


class LengthBound:
    """A lower bound on the number of tokens of a text, from its bytes alone.

    Each byte weighs 1 / (length of the longest token that contains the byte). So the bytes of a token weigh at most 1
    together, and a text has at least as many tokens as its bytes weigh. Bytes that encoding may drop weigh 0.
    `is_composed` says that text is normalized to NFC first, which can shorten it.
    """

    def __init__(self, tokens: Iterable[bytes], *, is_composed: bool = False, dropped: bytes = b"") -> None:
        self._tokens = tokens
        self._is_composed = is_composed
        self._dropped = dropped

    @cached_property
    def _weights(self) -> list[float]:
        longest = [0] * 256
        alone = set()
        for token in self._tokens:
            size = len(token)
            if size == 1:
                alone.add(token[0])
            for byte in set(token):
                longest[byte] = max(longest[byte], size)
        self._tokens = ()
        return [1 / longest[byte] if byte in alone and byte not in self._dropped else 0.0 for byte in range(256)]

    def check(self, text: str, limit: int) -> None:
        """Raise `TooManyTokensError` if the text certainly has more tokens than the limit."""
        if len(text) <= max(SHORT_CHARACTERS, limit):
            return
        import numpy as np

        weights = np.array(self._weights)
        composes = self._is_composed and not text.isascii()
        least = 0.0
        for start in range(0, len(text), WINDOW_CHARACTERS):
            part = text[start : start + WINDOW_CHARACTERS]
            if composes:
                part = unicodedata.normalize("NFC", part)
                least -= WINDOW_SLACK
            data = part.encode("utf-8", "surrogatepass")
            least += float(np.bincount(np.frombuffer(data, np.uint8), minlength=256) @ weights)
            if least >= limit + 1:
                raise TooManyTokensError(int(least), limit)
