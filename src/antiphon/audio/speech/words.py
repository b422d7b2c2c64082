"""Words of a text: as written, as said, and with the punctuation around them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from antiphon.audio.speech.forms.grouped import with_commas
from antiphon.audio.speech.markdown import without_marks
from antiphon.audio.speech.spoken_forms import spoken_forms

#: Marks that the synthesisers know as pauses and tones.
MARKS = ';:,.!?—…"()“”'
#: Pronunciation given in the text: `[tomato](/təmˈɑːtoʊ/)`.
OVERRIDE = re.compile(r"\[(?P<text>[^\[\]\n]{1,200})\]\(/(?P<phonemes>[^/\n]{1,200})/\)")
#: Latin letters with their signs, phonetic letters, and the punctuation used with them.
_LATIN = r"\x00-\u036f\u1e00-\u1eff\u2000-\u206f"
_LETTER = r"[A-Za-zªºÀ-ÖØ-öø-\u02c1\u1e00-\u1eff]"
_PIECE = re.compile(
    rf"(?P<foreign>[^{_LATIN}\s]+)"
    rf"|(?P<word>{_LETTER}+(?:['’]{_LETTER}+)*['’]?)"
    r"|(?P<mark>\.{2,}|[;:,.!?—–…\"()“”\n-])|\S"
)
_PLAIN_MARKS = {"–": "—", "\n": ",", "-": "", "..": "…", "...": "…"}


@dataclass(frozen=True)
class WrittenWord:
    """Word of the text from `start` to `end`. It is said as `said`, or by its own `phonemes` if given.

    Without either it cannot be read: letters of another script, or signs without a name.
    """

    text: str
    start: int
    end: int
    said: str
    before: str = ""  # opening marks
    after: str = ""  # closing marks
    phonemes: str | None = None


def words_of(text: str) -> list[WrittenWord]:
    """Return the words of a text in order, including unreadable ones, without markup and decoration."""
    words: list[WrittenWord] = []
    opening = ""
    for start, end, said, phonemes, mark in _items(with_commas(without_marks(text))):
        if not mark:
            written = text[start:end] if phonemes is None else said
            words.append(WrittenWord(written, start, end, said, before=opening, phonemes=phonemes))
            opening = ""
        elif mark in "(“" or (
            mark == '"'
            and (end == len(text) or not text[end : end + 1].isspace())
            and (not words or start == 0 or text[start - 1].isspace())
        ):
            opening += mark
        elif words:
            last = words[-1]
            if not last.after.endswith(mark):
                words[-1] = replace(last, after=last.after + mark)
    return words


def _items(text: str) -> Iterator[tuple[int, int, str, str | None, str]]:
    """Yield (start, end, said, phonemes, mark): words with an empty mark, or marks."""
    at, last = 0, len(text.rstrip())
    for match in OVERRIDE.finditer(text):
        yield from _spoken(text, at, match.start(), last)
        yield match.start(), match.end(), match["text"], match["phonemes"], ""
        at = match.end()
    yield from _spoken(text, at, len(text), last)


def _spoken(text: str, start: int, end: int, last: int) -> Iterator[tuple[int, int, str, str | None, str]]:
    """Yield forms and plain words between two positions of a text whose content ends at `last`."""
    at = start
    for first, after, said in spoken_forms(text[start:end]):
        yield from _plain(text, at, start + first, last)
        at = start + after
        if said:
            yield start + first, at, said, None, ""
        if text[at - 1] == "." and at >= last:  # the dot also ends the sentence
            yield at - 1, at, "", None, "."
    yield from _plain(text, at, end, last)


def _plain(text: str, start: int, end: int, last: int) -> Iterator[tuple[int, int, str, str | None, str]]:
    for match in _PIECE.finditer(text, start, end):
        if match["word"] is not None:
            yield match.start(), match.end(), match["word"], None, ""
        elif match["foreign"] is not None:
            if any(map(_has_meaning, match["foreign"])):
                yield match.start(), match.end(), "", None, ""
        elif match["mark"] is not None:
            mark = _PLAIN_MARKS.get(match["mark"], match["mark"])
            mark = "…" if mark.startswith("..") else mark
            if match["mark"] == "-" and not (text[match.start() - 1 : match.start()].isalnum()):
                mark = "—" if text[match.end() : match.end() + 1].isspace() else ""
            if mark and not (mark == "." and _is_initial(text, match.start(), last)):
                yield match.start(), match.end(), "", None, mark


def _has_meaning(character: str) -> bool:
    """Return whether a listener would miss the character: a letter, number or symbol, but not a line or shape."""
    return unicodedata.category(character)[0] in "LNS" and not "\u2500" <= character <= "\u25ff"


def _is_initial(text: str, dot: int, last: int) -> bool:
    """Return whether a dot belongs to an initial, as in "J. Doe": a single capital before it, and text after it."""
    alone = dot == 1 or (dot > 1 and not text[dot - 2].isalnum())
    return dot > 0 and text[dot - 1].isupper() and alone and dot + 1 < last


def joined_runs(text: str, words: Sequence[WrittenWord], indices: Iterable[int]) -> tuple[str, ...]:
    """Return the words at these indices as written, with adjacent words joined."""
    runs: list[tuple[int, int]] = []
    previous = -2
    for index in sorted(indices):
        start = runs.pop()[0] if index == previous + 1 else words[index].start
        runs.append((start, words[index].end))
        previous = index
    return tuple(text[start:end] for start, end in runs)


#: Replacements for variants of characters: full-width and subscript ones, digits of other scripts, apostrophes.
_SAME: dict[int, str] = {
    **{0xFF01 + offset: chr(0x21 + offset) for offset in range(94)},
    **{0x2080 + digit: chr(0x30 + digit) for digit in range(10)},
    **{ord(apostrophe): "'" for apostrophe in "’‘ʼ"},
    **dict.fromkeys((160, 8239, 8201, 12288), " "),
}


def clean(text: str) -> str:
    """Return text in composed form, with one kind of apostrophe and digit, without control and private characters."""
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFC", text).translate(_SAME)
    return "".join(
        str(unicodedata.decimal(c)) if c.isdecimal() and not c.isascii() else c
        for c in text
        if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn")
    )


def clean_with_ends(text: str) -> tuple[str, Sequence[int]]:
    """Clean the text like `clean`, and also return the end of each cleaned character in the given text."""
    if text.isascii() and text.isprintable():
        return text, range(1, len(text) + 1)
    cleaned, ends, start = "", [], 0
    for end in range(1, len(text) + 1):
        if end == len(text) or not unicodedata.combining(text[end]):
            part = clean(text[start:end])
            cleaned += part
            ends += [end] * len(part)
            start = end
    return cleaned, ends
