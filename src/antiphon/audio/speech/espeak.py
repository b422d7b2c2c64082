"""Phonemes of languages other than English, by the program `espeak-ng` where somebody has installed it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Container, Mapping

from antiphon.audio.speech.phonemes import SpokenClause, SpokenWord
from antiphon.audio.speech.words import MARKS, OVERRIDE
from antiphon.errors import InvalidRequestError

PROGRAM = "espeak-ng"
#: The program's name of a language's voice, by the language.
VOICES = {"es": "es", "fr": "fr-fr", "hi": "hi", "it": "it", "pt-br": "pt-br"}
TIMEOUT = 20.0
#: What the synthesisers write in one symbol, of two that the program ties together.
_TIED = {
    "t^s": "ʦ", "t^ʃ": "ʧ", "d^z": "ʣ", "d^ʒ": "ʤ",
    "a^ɪ": "I", "a^ʊ": "W", "e^ɪ": "A", "o^ʊ": "O", "ɔ^ɪ": "Y", "ə^ʊ": "Q",
}  # fmt: skip
_TIES = re.compile("|".join(map(re.escape, _TIED)))
_SWITCH = re.compile(r"\([a-z-]+\)")  # what the program writes where a word is of another language
_PIECE = re.compile(
    r"(?P<number>\d+(?:[.,:]\d+)*)|(?P<mark>\.{2,}|[;:,.!?—–…\"()“”«»¿¡\n])|(?P<word>[^\s;:,.!?—–…\"()“”«»¿¡]+)"
)
_PLAIN_MARKS = {"–": "—", "\n": ",", "..": "…", "...": "…", "«": "“", "»": "”", "¿": "", "¡": ""}


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


class EspeakPhonemizer:
    """Text of one language to phonemes. Of `known` symbols only: what else the program writes is left out."""

    def __init__(self, language: str, known: Container[str], overrides: Mapping[str, str] | None = None) -> None:
        if not is_installed():
            raise InvalidRequestError(
                f"language {language!r} needs the program {PROGRAM}, which is not installed here; English does not"
            )
        self._language = language
        self._known = known
        self._overrides = {word.lower(): phonemes for word, phonemes in (overrides or {}).items()}

    def with_overrides(self, overrides: Mapping[str, str]) -> EspeakPhonemizer:
        return EspeakPhonemizer(self._language, self._known, {**self._overrides, **overrides})

    def __call__(self, text: str) -> SpokenClause:
        spoken: list[SpokenWord] = []
        skipped: list[str] = []
        for words, own in self._phrases(text):
            for word, phonemes in zip(words, own if own is not None else self._read(words), strict=True):
                if phonemes:
                    spoken.append(SpokenWord(word.text, word.start, word.end, phonemes, word.before, word.after))
                else:
                    skipped.append(word.text)
        return SpokenClause(tuple(spoken), tuple(skipped))

    def _phrases(self, text: str) -> list[tuple[list[SpokenWord], list[str] | None]]:
        """Words, still without phonemes, from mark to mark; single ones whose phonemes are given."""
        phrases: list[tuple[list[SpokenWord], list[str] | None]] = []
        opening, ended = "", True
        for start, end, written, given, mark in _items(text):
            if mark is not None:
                if mark in ("(", "“") or (mark == '"' and ended):
                    opening += mark
                elif phrases and mark in MARKS:
                    words = phrases[-1][0]
                    last = words[-1]
                    words[-1] = SpokenWord(last.text, last.start, last.end, "", last.before, last.after + mark)
                    ended = True
                continue
            word = SpokenWord(written, start, end, "", opening, "")
            phonemes = given if given is not None else self._overrides.get(written.lower())
            opening = ""
            if phonemes is not None:
                phrases.append(([word], [phonemes]))
                ended = True
            elif ended:
                phrases.append(([word], None))
                ended = False
            else:
                phrases[-1][0].append(word)
        return phrases

    def _read(self, words: list[SpokenWord]) -> list[str]:
        """Phonemes by word: read together, since words sound into each other; singly where the program joins any."""
        together = self._run(" ".join(word.text for word in words)).split()
        if len(together) == len(words):
            return together
        return [" ".join(self._run(word.text).split()) for word in words]

    def _run(self, text: str) -> str:
        command = [PROGRAM, "-q", "--ipa", "--tie=^", "-v", VOICES[self._language], "--stdin"]
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidRequestError(f"{PROGRAM} could not read {text[:80]!r}: {error}") from error
        if done.returncode:
            raise InvalidRequestError(f"{PROGRAM} could not read {text[:80]!r}: {done.stderr.strip()[:200]}")
        tied = _TIES.sub(lambda match: _TIED[match[0]], _SWITCH.sub("", done.stdout))
        return "".join(symbol for symbol in tied if symbol.isspace() or symbol in self._known)


def _items(text: str) -> list[tuple[int, int, str, str | None, str | None]]:
    """(start, end, text, phonemes, mark): words with no mark, or marks."""
    out: list[tuple[int, int, str, str | None, str | None]] = []
    at = 0
    for own in [*OVERRIDE.finditer(text), None]:
        for match in _PIECE.finditer(text, at, len(text) if own is None else own.start()):
            mark = match["mark"]
            found = None if mark is None else _PLAIN_MARKS.get(mark, mark[0] if len(mark) < 3 else "…")
            out.append((match.start(), match.end(), match[0], None, found))
        if own is not None:
            out.append((own.start(), own.end(), own["text"], own["phonemes"], None))
            at = own.end()
    return out
