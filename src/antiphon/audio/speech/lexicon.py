"""Pronunciation of words: two dictionaries, the better one first, and the regular endings of English."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
CONSONANTS = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")
_VOICELESS_BEFORE_S = "ptkfθ"
_SIBILANTS = "szʃʒʧʤ"
_VOICELESS_BEFORE_T = "pkfθʃsʧ"
#: Sounds after which an American t before a vowel is a tap.
_TAPPING = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
_PLAIN = re.compile(r"[A-Za-z'-]+")
_DOUBLED = re.compile(r"([bcdgklmnprstvxz])\1ing$|cking$")

#: Pronunciation, or pronunciations by part of speech with a DEFAULT.
Entry = str | Mapping[str, str | None]


class Accent(StrEnum):
    AMERICAN = "american"
    BRITISH = "british"


@dataclass(frozen=True)
class Context:
    """Words around a word, as far as they affect its pronunciation."""

    tag: str = ""
    #: Whether the next sound is a vowel; None at a pause.
    vowel_follows: bool | None = None
    to_follows: bool = False


class Lexicon:
    """Pronunciations of an accent's words, including regular forms of words with an entry."""

    def __init__(self, first: Mapping[str, Entry], second: Mapping[str, Entry], accent: Accent) -> None:
        self._first = first
        self._second = second
        self.accent = accent

    def pronounce(self, word: str, context: Context) -> str | None:
        """Return the phonemes of a word as written in running text, or None if it is unknown."""
        special = self._function_word(word, context)
        if special is not None:
            return special
        lower = word.lower()
        stress = _stress_of_case(word)
        for form in (word, lower) if word != lower else (word,):
            if self._entry(form) is not None:
                if form is lower and word.isupper() and context.tag == "NNP" and self._first_entry(lower) is None:
                    break
                return stressed(self._reading(form, context), stress)
        letters, mark, _ = word.partition("'s")
        if letters.isupper() and (1 < len(letters) <= 5 or mark) and letters.isalpha():
            spelled = self.spell(letters)
            return f"{spelled}{self._s_after(spelled[-1])}" if spelled and mark else spelled
        for form in (word, lower):
            inflected = self._inflected(form, context, stress)
            if inflected is not None:
                return inflected
        if len(word) == 1 and word.isalpha():
            return self.spell(word)
        return None

    def spell(self, letters: str) -> str | None:
        """Return the names of letters, the last with the main stress; None if a letter has no name here."""
        names = [self._first.get(letter.upper()) for letter in letters if letter.isalpha()]
        if not names or not all(isinstance(name, str) for name in names):
            return None
        joined = "".join(str(name) for name in names).replace(SECONDARY, "").replace(PRIMARY, SECONDARY)
        head, mark, tail = joined.rpartition(SECONDARY)
        return f"{head}{PRIMARY}{tail}" if mark else joined

    # -- entries ------------------------------------------------------------------------------------------------

    def _first_entry(self, word: str) -> Entry | None:
        return self._found(self._first, word)

    def _entry(self, word: str) -> Entry | None:
        entry = self._found(self._first, word)
        return self._found(self._second, word) if entry is None else entry

    @staticmethod
    def _found(entries: Mapping[str, Entry], word: str) -> Entry | None:
        """Return the entry in the word's own case, or with the case of its first letter changed."""
        entry = entries.get(word)
        if entry is not None or len(word) < 2:
            return entry
        if word.islower():
            return entries.get(word.capitalize())
        return entries.get(word.lower()) if word == word.capitalize() else None

    def _reading(self, word: str, context: Context) -> str | None:
        entry = self._entry(word)
        if entry is None or isinstance(entry, str):
            return entry
        if context.vowel_follows is None and "None" in entry:
            return entry["None"]
        for tag in (context.tag, _family(context.tag), "DEFAULT"):
            if tag in entry:
                return entry[tag]
        return None

    def _function_word(self, word: str, context: Context) -> str | None:
        """Return the phonemes of a small word that depends on the next word, or None for other words."""
        lower, tag = word.lower(), context.tag
        if word.isupper() and len(word) > 1 and tag.startswith("NNP"):
            return None
        if lower == "a":
            return "ɐ" if tag == "DT" else f"{PRIMARY}A"
        if lower == "an":
            return "ɐn"
        if lower == "am" and context.vowel_follows is not None and word == "am":
            return "ɐm"
        if word == "I" and tag == "PRP":
            return f"{SECONDARY}I"
        if lower == "the":
            return "ði" if context.vowel_follows else "ðə"
        if lower == "to" and context.vowel_follows is not None:
            return "tʊ" if context.vowel_follows else "tə"
        if lower == "in":
            return f"{PRIMARY}ɪn" if context.vowel_follows is None or tag != "IN" else "ɪn"
        if lower == "by" and tag.startswith("RB"):
            return f"b{PRIMARY}I"
        if lower == "used":
            entry = self._first.get("used")
            if isinstance(entry, Mapping):
                return entry["VBD" if tag in ("VBD", "JJ") and context.to_follows else "DEFAULT"]
        return None

    # -- endings ------------------------------------------------------------------------------------------------

    def _inflected(self, word: str, context: Context, stress: float | None) -> str | None:
        """Return the phonemes of a plural, possessive, past or -ing form of a word that has an entry, or None."""
        if not _PLAIN.fullmatch(word):
            return None
        for endings in (self._with_s, self._with_ed, self._with_ing):
            said = endings(word, context, stress)
            if said is not None:
                return said
        return None

    def _stem(self, stem: str, context: Context, stress: float | None) -> str | None:
        if len(stem) < 2 or self._entry(stem) is None:
            return None
        return stressed(self._reading(stem, replace(context, vowel_follows=False)), stress)

    def _with_s(self, word: str, context: Context, stress: float | None) -> str | None:
        stems: list[str] = []
        if word.endswith("s'"):
            word = word[:-1]
        elif word.endswith("'"):
            return self._stem(word[:-1], context, stress)
        if word.endswith("'s"):
            stems.append(word[:-2])
        elif word.endswith("s") and not word.endswith("ss"):
            stems.append(word[:-1])
            if word.endswith("ies"):
                stems.append(f"{word[:-3]}y")
            elif word.endswith("es"):
                stems.append(word[:-2])
        for stem in stems:
            said = self._stem(stem, context, stress)
            if said:
                return said + self._s_after(said[-1])
        return None

    def _s_after(self, last: str) -> str:
        if last in _VOICELESS_BEFORE_S:
            return "s"
        return f"{self._weak_vowel}z" if last in _SIBILANTS else "z"

    @property
    def _weak_vowel(self) -> str:
        return "ɪ" if self.accent is Accent.BRITISH else "ᵻ"

    def _with_ed(self, word: str, context: Context, stress: float | None) -> str | None:
        if len(word) < 4 or not word.endswith("ed"):
            return None
        stems = [word[:-1], word[:-2]]
        if word.endswith("ied"):
            stems.append(f"{word[:-3]}y")
        if len(word) > 5 and word[-3] == word[-4]:
            stems.append(word[:-3])
        for stem in stems:
            said = self._stem(stem, context, stress)
            if said:
                return self._past(said)
        return None

    def _past(self, said: str) -> str:
        last = said[-1]
        if last in _VOICELESS_BEFORE_T:
            return f"{said}t"
        if last not in "dt":
            return f"{said}d"
        if last == "t" and self._taps(said):
            return f"{said[:-1]}ɾᵻd"
        return f"{said}{self._weak_vowel}d"

    def _taps(self, said: str) -> bool:
        return self.accent is Accent.AMERICAN and len(said) > 1 and said[-2] in _TAPPING

    def _with_ing(self, word: str, context: Context, stress: float | None) -> str | None:
        if len(word) < 5 or not word.endswith("ing"):
            return None
        stems = [word[:-3], f"{word[:-3]}e"]
        if _DOUBLED.search(word):
            stems.append(word[:-4])
        for stem in stems:
            said = self._stem(stem, context, 0.5 if stress is None else stress)
            if said and not (self.accent is Accent.BRITISH and said[-1] in "əː"):
                return f"{said[:-1]}ɾɪŋ" if said[-1] == "t" and self._taps(said) else f"{said}ɪŋ"
        return None


def _family(tag: str) -> str:
    """Return the coarse part of speech by which entries are keyed."""
    for prefix, family in (("VB", "VERB"), ("NN", "NOUN"), ("RB", "ADV"), ("JJ", "ADJ")):
        if tag.startswith(prefix):
            return family
    return tag


def _stress_of_case(word: str) -> float | None:
    """Return the stress that capitals imply: 0.5 for a capital letter, 2 for a word in capitals."""
    if word == word.lower():
        return None
    return 2.0 if word == word.upper() and len(word) > 1 else 0.5


def stressed(phonemes: str | None, stress: float | None) -> str | None:
    """Return phonemes with at least the given stress: secondary from 0.5 on, primary from 2."""
    if phonemes is None or stress is None:
        return phonemes
    if PRIMARY in phonemes:
        return phonemes
    if SECONDARY in phonemes:
        return phonemes.replace(SECONDARY, PRIMARY) if stress >= 1 else phonemes
    vowel = next((index for index, phoneme in enumerate(phonemes) if phoneme in VOWELS), None)
    if vowel is None:
        return phonemes
    return phonemes[:vowel] + (PRIMARY if stress > 1 else SECONDARY) + phonemes[vowel:]
