"""Splitting of text, complete or still arriving, into clauses that can be spoken one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.audio.speech.forms.abbreviations import NO_SENTENCE_END, NO_SENTENCE_END_BEFORE_NUMBERS
from antiphon.audio.speech.forms.streets import is_street
from antiphon.audio.speech.words import clean

#: Characters after which a clause is cut at the next comma; a clause of twice as many is cut at a space.
MAX_CHARACTERS = 220
#: Characters after which the first clause is cut at the next comma, so that the first sound comes early.
FIRST_CHARACTERS = 24
#: Maximum growth of a clause, relative to all text before it, while little sound is buffered.
GROWTH = 1.5
_SENTENCE_END = re.compile(r"[.!?…]+[\"”’')\]]*(?=\s)|\n\s*\n|\n")
_CLAUSE_END = re.compile(r"[,;:—–][\"”’')\]]*(?=\s)|(?<=\s)[—–-](?=\s)")
#: English words before which a phrase may end, if there is no time for a longer one.
_PHRASE_END = re.compile(
    r"\s+(?=(?:and|or|but|because|although|while|when|where|which|who|that|than|if|to|for|with|without|from|into|"
    r"through|between|before|after|until|about|over|under|in|on|at|by|as)\s)"
)
#: Words before which a long phrase may also end.
_WEAK_END = re.compile(
    r"\s+(?=(?:how|what|why|of|the|a|an|this|these|he|she|it|they|we|you|i|his|her|their|our|your|my)\s)", re.I
)
_HALF_DAY = ("a.m", "p.m")
_ZONE = re.compile(r"(?:[ECMPA][SD]?T|GMT|UTC|[BC]E?ST)\b")
#: Maximum characters to search backwards for the word before a mark.
LONGEST_WORD = 48
#: Digits, a Roman numeral, or the rest of a range.
_NUMBER = re.compile(r"\d|[IVXLC]{2,6}\b|[VX]\b|[–-]")
_LAST_WORD = re.compile(r"([^\s(\"“'‘]*)$")


@dataclass(frozen=True)
class Clause:
    """Part of the text, and whether a sentence or a paragraph ends with it."""

    text: str
    start: int  # index in the whole text
    ends_sentence: bool
    ends_paragraph: bool = False


class ClauseSplitter:
    """Splitter that receives text as it arrives and yields clauses as soon as their end is certain.

    Without `room`, clauses depend on the text alone. `room` is the number of characters that can be spoken before the
    listener has heard all sound: a longer sentence is cut within it if possible, at a comma or else between two
    phrases. With `hurries`, even the first clause may be cut between two phrases.
    """

    def __init__(
        self, first_characters: int = FIRST_CHARACTERS, max_characters: int = MAX_CHARACTERS, *, hurries: bool = False
    ) -> None:
        self._first = first_characters
        self._max = max_characters
        self._pending = ""
        self._consumed = 0
        self._num_clauses = 0
        self.room: int | None = None
        self.hurries = hurries

    def push(self, text: str) -> Iterator[Clause]:
        """Add text, and yield the clauses that are now complete. A sentence's end is certain once text follows it."""
        self._pending += clean(text)
        while True:
            cut = self._cut(is_last=False)
            if cut is None:
                return
            clause = self._take(*cut)
            if clause is not None:
                yield clause

    def finish(self) -> Iterator[Clause]:
        """Yield the remaining clauses."""
        while self._pending.strip():
            end, ends_sentence = self._cut(is_last=True) or (len(self._pending), True)
            clause = self._take(end, ends_sentence)
            if clause is not None:
                yield clause

    def _take(self, end: int, ends_sentence: bool) -> Clause | None:
        text, self._pending = self._pending[:end], self._pending[end:]
        start = self._consumed + len(text) - len(text.lstrip())
        self._consumed += end
        if not text.strip():
            return None
        self._num_clauses += 1
        return Clause(text.strip(), start, ends_sentence, "\n" in text.rstrip(" ")[-2:] or "\n" in self._pending[:1])

    def _cut(self, is_last: bool) -> tuple[int, bool] | None:
        """Return the end of the next clause and whether a sentence ends there; None while that is uncertain."""
        # A clause ends within twice the maximum, so text far beyond that has no effect.
        pending = self._pending[: 3 * self._max]
        is_last = is_last and len(pending) == len(self._pending)
        sentence = next((m.end() for m in _SENTENCE_END.finditer(pending) if self._is_end(m, is_last)), None)
        is_first = not self._num_clauses
        wanted = self._wanted()
        limit = len(pending) if sentence is None else sentence
        if limit > wanted:
            within = None
            if is_first:
                within = self._first_phrase(pending[:limit], sentence is not None or is_last) if self.hurries else None
            elif self.room is not None:
                within = self._cut_within(pending[:limit], wanted)
            if within is not None:
                return within, False
            comma = next((m.end() for m in _CLAUSE_END.finditer(pending, wanted, limit)), None)
            longest = 2 * self._max
            leaves_enough = is_first or limit > self._max or (comma is not None and limit - comma >= self._first)
            if comma is not None and comma <= longest and leaves_enough:
                return comma, False
            if limit > longest:
                space = pending.rfind(" ", self._max, longest)
                return (space if space > 0 else longest), False
        return None if sentence is None else (sentence, True)

    def _wanted(self) -> int:
        """Return the length up to which a clause is not cut at a comma."""
        if not self._num_clauses:
            return self._first
        return min(self._max, max(self._first, round(GROWTH * self._consumed) if self.room is None else self.room))

    def _cut_within(self, sentence: str, wanted: int) -> int | None:
        """Return the last good position within `wanted` to cut a sentence, else the first good one, or None."""
        # Both sides must be worth a clause, and no clause may exceed the maximum.
        least, most = self._first, min(len(sentence) - self._first // 2, 2 * self._max)
        commas, phrases = (
            [m.end() for m in pattern.finditer(sentence) if least <= m.end() <= most]
            for pattern in (_CLAUSE_END, _PHRASE_END)
        )
        within = [cut for cut in commas if cut <= wanted]
        within = within or [cut for cut in phrases if wanted // 2 <= cut <= wanted]
        return within[-1] if within else min(commas + phrases, default=None)

    def _first_phrase(self, text: str, is_whole: bool) -> int | None:
        """Return the first position to cut a text that is long enough, or None if little would remain after it."""
        cuts = [m.end() for m in _CLAUSE_END.finditer(text, self._first)]
        cuts += [m.end() for m in _PHRASE_END.finditer(text) if m.end() >= self._first]
        cuts += [m.end() for m in _WEAK_END.finditer(text) if m.end() >= 2 * self._first]
        cut = min(cuts, default=None)
        if cut is None or (is_whole and len(text.rstrip()) - cut < self._first // 2):
            return None
        return cut

    def _is_end(self, match: re.Match[str], is_last: bool) -> bool:
        """Return whether a mark ends a sentence: not after a title or an initial, nor before a small letter."""
        text, mark = match.string, match[0]
        if "\n" in mark:
            return True
        following = text[match.end() :].lstrip()
        if not following:
            return is_last
        if following[0].islower():
            return False
        if not mark.startswith(".") or mark.startswith(".."):
            return True
        found = _LAST_WORD.search(text, max(0, match.start() - LONGEST_WORD), match.start())
        word = found[1] if found else ""
        if word in NO_SENTENCE_END:
            return is_street(text, match.start() - len(word), match.end())
        if word.rpartition("–")[2].rpartition("-")[2] in NO_SENTENCE_END_BEFORE_NUMBERS and _NUMBER.match(following):
            return False
        if word.lower() in _HALF_DAY and _ZONE.match(following):
            return False
        return not (len(word) == 1 and word.isupper() and word != "I")
