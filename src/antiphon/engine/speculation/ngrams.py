"""`NgramIndex`: earlier occurrences of a text's last tokens, which predict its next tokens."""

from __future__ import annotations

from collections.abc import Sequence

#: Minimum length of a match in tokens; shorter matches predict too little.
SHORTEST = 2
#: Maximum length of a match in tokens.
LONGEST = 32
#: Maximum number of earlier occurrences that are compared, newest first.
MOST_POSITIONS = 8
#: Match length assumed for a guess before any token of it has been confirmed.
GUESS_LENGTH = 6

#: Minimum length of a match that is looked for again after it broke off, and the number of tokens of the text and of
#: the match in which it is looked for.
LEFT_LENGTH, RETURN_TOKENS = 5, 8
#: Length of a match that resumed after a single token.
RETURNED_LENGTH = 1

NOWHERE = -1


class NgramIndex:
    """Index of a text that grows token by token, with the best earlier match of its end.

    A `guess` of the continuation, such as the last transcript of the same sound or an expected answer, is searched like
    earlier text.
    """

    def __init__(self, tokens: Sequence[int], guess: Sequence[int] = ()) -> None:
        self._text: list[int] = []
        self._newest: dict[tuple[int, int], int] = {}  # the position after the newest occurrence of two tokens
        self._older: list[int] = []  # by position: the position after the occurrence before it
        #: Position of the expected next token, and the number of tokens before it that match the end of the text.
        self.position, self.length = NOWHERE, 0
        #: Whether that position is near the one where the last long match broke off.
        self.has_returned = False
        self._left = NOWHERE  # position at which a long match broke off
        self._patience = 0  # tokens left in which it is looked for
        if guess:
            self._add(guess)
            self._add((NOWHERE,))  # separator: no match extends across it
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
        """Token that is expected next, or -1."""
        return self._text[self.position] if NOWHERE < self.position < len(self._text) else NOWHERE

    def append(self, token: int) -> None:
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
        """Resume a long match that broke off a few tokens ago behind this token, if it is near that position.

        A replaced word breaks a match off in this way.
        """
        near = self._text[self._left : min(self._left + RETURN_TOKENS, len(self._text) - 1)]
        if token in near:
            self.position, self.length = self._left + near.index(token) + 1, RETURNED_LENGTH

    def follow(self, count: int, ahead: Sequence[int] = ()) -> tuple[list[int], int]:
        """Return up to `count` tokens that may follow the text and then `ahead`, and the length of the match."""
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
        """Return the position after the longest match of the end of `tail` that has a continuation, and its length."""
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
