"""The words of a text: each as it is written, as it is said, and what punctuation comes after it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.audio.speech.spoken_forms import spoken_forms

#: Marks that the synthesisers know as pauses and tones.
MARKS = ';:,.!?—…"()“”'
#: Written by hand: `[tomato](/təmˈɑːtoʊ/)`.
OVERRIDE = re.compile(r"\[(?P<text>[^\[\]\n]{1,200})\]\(/(?P<phonemes>[^/\n]{1,200})/\)")
_PIECE = re.compile(r"(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*['’]?)|(?P<mark>\.{2,}|[;:,.!?—–…\"()“”\n-])|\S", re.UNICODE)
_PLAIN_MARKS = {"–": "—", "\n": ",", "-": "", "..": "…", "...": "…"}


@dataclass(frozen=True)
class Word:
    """A word of the text at `start` to `end`. It is said as `said`, or by its own `phonemes` where they are given.

    A word with nothing to say holds only the marks that stand where it would be.
    """

    text: str
    start: int
    end: int
    said: str
    before: str = ""  # opening marks
    after: str = ""  # closing marks
    phonemes: str | None = None


def words_of(text: str) -> list[Word]:
    """The words of a text in order. What nobody says (emoji, control characters) is left out."""
    words: list[Word] = []
    opening = ""
    for start, end, said, phonemes, mark in _items(text):
        if not mark:
            written = text[start:end] if phonemes is None else said
            words.append(Word(written, start, end, said, before=opening, phonemes=phonemes))
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
                words[-1] = Word(
                    last.text, last.start, last.end, last.said, last.before, last.after + mark, last.phonemes
                )
    return words


def _items(text: str) -> Iterator[tuple[int, int, str, str | None, str]]:
    """(start, end, said, phonemes, mark): words with an empty mark, or marks."""
    at = 0
    for match in OVERRIDE.finditer(text):
        yield from _spoken(text, at, match.start())
        yield match.start(), match.end(), match["text"], match["phonemes"], ""
        at = match.end()
    yield from _spoken(text, at, len(text))


def _spoken(text: str, start: int, end: int) -> Iterator[tuple[int, int, str, str | None, str]]:
    at = start
    for first, last, said in spoken_forms(text[start:end]):
        yield from _plain(text, at, start + first)
        yield start + first, start + last, said, None, ""
        at = start + last
        if text[at - 1] == "." and not text[at:].strip():  # a dot that is the sentence's as well
            yield at - 1, at, "", None, "."
    yield from _plain(text, at, end)


def _plain(text: str, start: int, end: int) -> Iterator[tuple[int, int, str, str | None, str]]:
    for match in _PIECE.finditer(text, start, end):
        if match["word"] is not None:
            yield match.start(), match.end(), match["word"], None, ""
        elif match["mark"] is not None:
            mark = _PLAIN_MARKS.get(match["mark"], match["mark"])
            mark = "…" if mark.startswith("..") else mark
            if match["mark"] == "-" and not (text[match.start() - 1 : match.start()].isalnum()):
                mark = "—" if text[match.end() : match.end() + 1].isspace() else ""
            if mark and not (mark == "." and _is_initial(text, match.start())):
                yield match.start(), match.end(), "", None, mark


def _is_initial(text: str, dot: int) -> bool:
    """Whether a dot belongs to an initial, as in "J. Doe": one capital letter before it, and text after it."""
    alone = dot == 1 or (dot > 1 and not text[dot - 2].isalnum())
    return dot > 0 and text[dot - 1].isupper() and alone and bool(text[dot + 1 :].strip())


def clean(text: str) -> str:
    """Text in composed form, one kind of apostrophe, without control, format and private characters."""
    text = unicodedata.normalize("NFC", text).replace("’", "'").replace("‘", "'").replace("\u00a0", " ")
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn"))
