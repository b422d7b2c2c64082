"""`NgramIndex`: where the last tokens of a text stood before, and so what may follow them."""

from __future__ import annotations

from collections.abc import Sequence

#: The fewest last tokens that must have stood together before; fewer say too little about what follows.
SHORTEST = 2
#: A match is not followed back farther than this.
LONGEST = 32
#: Earlier positions of the last tokens that are compared, the newest first.
MOST_POSITIONS = 8
#: The length of the match that a guess counts as at its beginning, before any token of it has been confirmed.
GUESS_LENGTH = 6

#: A match of this length that breaks off is looked for again, over so many tokens of the text and of the match.
LEFT_LENGTH, RETURN_TOKENS = 5, 8
#: The length that a match counts as when it goes on behind one token.
RETURNED_LENGTH = 1

NOWHERE = -1


class NgramIndex:
    """A text that grows by a token at a time, with the position that its end matches best.

    A `guess` of how the text will go on stands before it, as a text to match: the last transcript of the same sound,
    or an answer that a caller expects.
    """

    def __init__(self, tokens: Sequence[int], guess: Sequence[int] = ()) -> None:
        self._text: list[int] = []
        self._newest: dict[tuple[int, int], int] = {}  # the position after the newest occurrence of two tokens
        self._older: list[int] = []  # by position: the position after the occurrence before it
        #: The position that is expected to come next, and how many tokens before it are the last ones of the text.
        self.position, self.length = NOWHERE, 0
        #: Whether that position is near the one where the last long match was left.
        self.has_returned = False
        self._left = NOWHERE  # position of a long match that broke off
        self._patience = 0  # tokens to look for it
        if guess:
            self._add(guess)
            self._add((NOWHERE,))  # no token: nothing matches across it
        self._add(tokens)
        if guess:
            self.position, self.length = 0, GUESS_LENGTH
        else:
            self.position, self.length = self._find(self._text)

    def _add(self, tokens: Sequence[int]) -> None:
        text, newest, older = self._text, self._newest, self._older
        for token in tokens:
            if text:
                pair = text[-1], token
                older.append(newest.get(pair, NOWHERE))
                newest[pair] = len(text) + 1
            else:
                older.append(NOWHERE)
            text.append(token)

    @property
    def expected(self) -> int:
        """The token that is expected next, or -1."""
        return self._text[self.position] if NOWHERE < self.position < len(self._text) else NOWHERE

    def append(self, token: int) -> None:
        """The text goes on with this token."""
        is_expected = self.expected == token
        self._add((token,))
        if is_expected:
            self.position, self.length = self.position + 1, self.length + 1
            return
        if self.length >= LEFT_LENGTH:
            self._left, self._patience = self.position, RETURN_TOKENS
        self.position, self.length = self._find(self._text)
        if self.position == NOWHERE and self._patience:
            self._patience -= 1
            self._return(token)
        self.has_returned = self._left != NOWHERE and 0 <= self.position - self._left <= RETURN_TOKENS

    def _return(self, token: int) -> None:
        """A long match was left a few tokens ago, as by a word that was replaced: go on behind this token, if it stands
        near the position where it was left."""
        near = self._text[self._left : min(self._left + RETURN_TOKENS, len(self._text) - 1)]
        if token in near:
            self.position, self.length = self._left + near.index(token) + 1, RETURNED_LENGTH

    def follow(self, count: int, ahead: Sequence[int] = ()) -> tuple[list[int], int]:
        """Up to `count` tokens that may follow the text and then `ahead`, and the length of the match."""
        position, length = self.position, self.length
        if ahead:
            if position != NOWHERE and self._text[position : position + len(ahead)] == list(ahead):
                position, length = position + len(ahead), length + len(ahead)
            else:
                position, length = self._find([*self._text[-LONGEST:], *ahead])
        if position == NOWHERE or count <= 0:
            return [], 0
        found = self._text[position : position + count]
        return (found[: found.index(NOWHERE)] if NOWHERE in found else found), length

    def _find(self, tail: Sequence[int]) -> tuple[int, int]:
        """The position after the longest match of the end of `tail`, and its length; something must follow it."""
        if len(tail) < SHORTEST:
            return NOWHERE, 0
        text = self._text
        position = self._newest.get((tail[-2], tail[-1]), NOWHERE)
        if position == len(text):
            position = self._older[position - 1]
        best, longest = NOWHERE, 0
        for _ in range(MOST_POSITIONS):
            if position == NOWHERE:
                break
            length, most = SHORTEST, min(LONGEST, position, len(tail))
            while length < most and text[position - 1 - length] == tail[-1 - length]:
                length += 1
            if length > longest:
                best, longest = position, length
            position = self._older[position - 1]
        return best, longest
