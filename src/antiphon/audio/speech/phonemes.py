"""Conversion of a clause of text to phonemes, with the words they belong to."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from antiphon.audio.speech.lexicon import CONSONANTS, VOWELS, Context, Lexicon, stressed
from antiphon.audio.speech.tagger import Tagger
from antiphon.audio.speech.words import WrittenWord, joined_runs, words_of

#: Marks after which the next word's first sound has no influence.
_PAUSES = frozenset(";:,.!?—…")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PARTICLE = re.compile(r"(?:Mc|Mac|La|Le|De|Di|Du|Van|Fitz)[A-Z]")
_SAID_PIECE = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*'?|[,.]", re.UNICODE)


@dataclass(frozen=True)
class SpokenWord:
    """Word of the text with its phonemes, which may be those of several spoken words."""

    text: str
    start: int  # index in the clause
    end: int
    phonemes: str
    before: str
    after: str


@dataclass(frozen=True)
class SpokenClause:
    """Spoken words of a clause in order, and the runs of text that cannot be read."""

    words: tuple[SpokenWord, ...]
    skipped: tuple[str, ...]

    @property
    def phonemes(self) -> str:
        return "".join(piece for piece, _ in self.pieces())

    def pieces(self) -> list[tuple[str, int]]:
        """Return phonemes, marks and spaces, each with the index of its word, or -1 for marks and spaces."""
        out: list[tuple[str, int]] = []
        for index, word in enumerate(self.words):
            if index:
                out.append((" ", -1))
            for piece, owner in ((word.before, -1), (word.phonemes, index), (word.after, -1)):
                if piece:
                    out.append((piece, owner))
        return out


class Phonemizer:
    """Converter from English text to phonemes. `unknown` reads words outside the lexicon; None if it cannot."""

    def __init__(
        self,
        lexicon: Lexicon,
        tagger: Tagger,
        unknown: Callable[[str], str | None],
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self._lexicon = lexicon
        self._tagger = tagger
        self._unknown = unknown
        self._overrides = {word.lower(): phonemes for word, phonemes in (overrides or {}).items()}

    def with_overrides(self, overrides: Mapping[str, str]) -> Phonemizer:
        """Return a phonemizer with additional pronunciations by word."""
        merged = {**self._overrides, **overrides}
        return Phonemizer(self._lexicon, self._tagger, self._unknown, merged)

    def __call__(self, text: str) -> SpokenClause:
        words = words_of(text)
        said = [_SAID_PIECE.findall(word.said) for word in words]
        tags = self._tags(words, said)
        spoken: list[SpokenWord] = []
        skipped: list[int] = []
        following: bool | None = None
        next_word = ""
        marks = ""  # marks of unreadable words after this one
        for index in reversed(range(len(words))):
            word, pieces, own_tags = words[index], said[index], tags[index]
            if any(mark in _PAUSES for mark in word.after):
                following = None
            phonemes, following, next_word = self._word(word, pieces, own_tags, following, next_word)
            if phonemes:
                after = word.after or marks
                spoken.append(SpokenWord(word.text, word.start, word.end, phonemes, word.before, after))
                marks = ""
            else:
                skipped.append(index)
                marks = word.after or marks
        return SpokenClause(tuple(reversed(spoken)), joined_runs(text, words, skipped))

    def _tags(self, words: Sequence[WrittenWord], said: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the tags of every word's spoken parts, with the marks around them as context."""
        tokens: list[str] = []
        owners: list[int] = []
        for index, (word, pieces) in enumerate(zip(words, said, strict=True)):
            for token, owner in ((word.before, -1), *((piece, index) for piece in pieces), (word.after, -1)):
                for part in [token] if owner >= 0 else token:
                    if part:
                        tokens.append(part)
                        owners.append(owner)
        out: list[list[str]] = [[] for _ in words]
        for owner, tag in zip(owners, self._tagger(tokens), strict=True):
            if owner >= 0:
                out[owner].append(tag)
        return out

    def _word(
        self, word: WrittenWord, pieces: Sequence[str], tags: Sequence[str], following: bool | None, next_word: str
    ) -> tuple[str, bool | None, str]:
        """Return the phonemes of a word's spoken parts, whether they begin with a vowel, and the first part."""
        own = word.phonemes if word.phonemes is not None else self._overrides.get(word.text.lower())
        if own is not None:
            return own, _begins_with_vowel(own, following), word.text.lower()
        out: list[str] = []
        for piece, tag in zip(reversed(pieces), reversed(tags), strict=True):
            if piece in ",.":
                following = None
                if out:
                    out.append(piece)
                continue
            if piece == "A" and word.said != word.text:
                tag = ""  # the letter: "a.m." is read as "A M"
            context = Context(tag, following, next_word == "to")
            phonemes = self._piece(piece, context)
            if phonemes:
                following = _begins_with_vowel(phonemes, following)
                next_word = piece.lower()
                out.append(phonemes)
        joined = ""
        for phonemes in reversed(out):
            joined += phonemes if phonemes in ",." or not joined else f" {phonemes}"
        return joined, following, next_word

    def _piece(self, piece: str, context: Context) -> str | None:
        own = self._overrides.get(piece.lower())
        if own is not None:
            return own
        phonemes = self._lexicon.pronounce(piece, context) or self._compound(piece, context) or self._read(piece)
        # The synthesisers write the tap as T, and have no glottal stop.
        return phonemes.replace("ɾ", "T").replace("ʔ", "t") if phonemes else None

    def _compound(self, piece: str, context: Context) -> str | None:
        """Read a name of several words, such as PyTorch, but not one with a particle, such as McDonald."""
        parts = _INNER_CAPITAL.split(piece)
        if len(parts) < 2 or _PARTICLE.match(piece):
            return None
        said = [self._lexicon.pronounce(part, context) or self._read(part) for part in parts]
        return " ".join(filter(None, said)) or None

    def _read(self, piece: str) -> str | None:
        """Read an unknown word, by its letters if nothing else works."""
        said = self._unknown(piece) or self._unknown(_plain_letters(piece)) or self._lexicon.spell(piece)
        return stressed(said, 2.0)


def _begins_with_vowel(phonemes: str, otherwise: bool | None) -> bool | None:
    for phoneme in phonemes:
        if phoneme in _PAUSES:
            return None
        if phoneme in VOWELS:
            return True
        if phoneme in CONSONANTS:
            return False
    return otherwise


#: Letters whose accents Unicode cannot separate.
_LIKE = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ß": "ss", "æ": "ae", "Æ": "Ae",
                       "œ": "oe", "Œ": "Oe", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i"})  # fmt: skip


def _plain_letters(word: str) -> str:
    word = word.translate(_LIKE)
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
