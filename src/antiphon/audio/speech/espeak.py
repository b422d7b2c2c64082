"""Phonemes of languages other than English, by the program `espeak-ng` if it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from antiphon.audio.speech.markdown import without_emphasis, without_marks
from antiphon.audio.speech.phonemes import SpokenClause, SpokenWord
from antiphon.audio.speech.words import MARKS, OVERRIDE, WrittenWord, joined_runs
from antiphon.dependencies import missing_program
from antiphon.errors import EngineError

PROGRAM = "espeak-ng"
#: Name of the program's voice by language.
VOICES = {"es": "es", "fr": "fr-fr", "hi": "hi", "it": "it", "pt-br": "pt-br"}
TIMEOUT = 20.0
#: Symbols of the synthesisers for two symbols that the program ties together.
_TIED = {
    "t^s": "ʦ", "t^ʃ": "ʧ", "d^z": "ʣ", "d^ʒ": "ʤ",
    "a^ɪ": "I", "a^ʊ": "W", "e^ɪ": "A", "o^ʊ": "O", "ɔ^ɪ": "Y", "ə^ʊ": "Q",
}  # fmt: skip
_TIES = re.compile("|".join(map(re.escape, _TIED)))
_SWITCH = re.compile(r"\([a-z-]+\)")  # the program's mark for a word of another language
_PIECE = re.compile(
    r"(?P<number>\d+(?:[.,:]\d+)*)|(?P<mark>\.{2,}|[;:,.!?—–…\"()“”«»¿¡\n])|(?P<word>[^\s;:,.!?—–…\"()“”«»¿¡]+)"
)
_PLAIN_MARKS = {"–": "—", "\n": ",", "«": "“", "»": "”", "¿": "", "¡": ""}


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


class EspeakPhonemizer:
    """Converter from text of one language to phonemes. Symbols outside `known` are left out."""

    def __init__(self, language: str, known: Container[str], overrides: Mapping[str, str] | None = None) -> None:
        if not is_installed():
            raise missing_program(f"language {language!r}", PROGRAM)
        self._language = language
        self._known = known
        self._overrides = {word.lower(): phonemes for word, phonemes in (overrides or {}).items()}

    def with_overrides(self, overrides: Mapping[str, str]) -> EspeakPhonemizer:
        return EspeakPhonemizer(self._language, self._known, {**self._overrides, **overrides})

    def __call__(self, text: str) -> SpokenClause:
        spoken: list[SpokenWord] = []
        words: list[WrittenWord] = []
        skipped: list[int] = []
        for phrase in self._phrases(text):
            for word, phonemes in zip(phrase, self._read(phrase), strict=True):
                if phonemes:
                    spoken.append(SpokenWord(word.text, word.start, word.end, phonemes, word.before, word.after))
                else:
                    skipped.append(len(words))
                words.append(word)
        return SpokenClause(tuple(spoken), joined_runs(text, words, skipped))

    def _phrases(self, text: str) -> list[list[WrittenWord]]:
        """Return the words between marks; words with given phonemes stand alone."""
        phrases: list[list[WrittenWord]] = []
        opening, ended = "", True
        for word, mark in _items(without_emphasis(without_marks(text))):
            if word is not None:
                given = word.phonemes if word.phonemes is not None else self._overrides.get(word.text.lower())
                word = replace(word, before=opening, phonemes=given)
                opening = ""
                if ended or given is not None:
                    phrases.append([word])
                else:
                    phrases[-1].append(word)
                ended = given is not None
            elif mark in ("(", "“") or (mark == '"' and ended):
                opening += mark
            elif phrases and mark in MARKS:
                last = phrases[-1][-1]
                phrases[-1][-1] = replace(last, after=last.after + mark)
                ended = True
        return phrases

    def _read(self, words: list[WrittenWord]) -> list[str]:
        """Return phonemes by word. Words influence each other, so they are read together if the program joins none."""
        if words[0].phonemes is not None:
            return [words[0].phonemes]
        together = self._run(" ".join(word.text for word in words)).split()
        if len(together) == len(words):
            return together
        return [" ".join(self._run(word.text).split()) for word in words]

    def _run(self, text: str) -> str:
        command = [PROGRAM, "-q", "--ipa", "--tie=^", "-v", VOICES[self._language], "--stdin"]
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"{PROGRAM} could not read {text[:80]!r}: {error}") from error
        if done.returncode:
            raise EngineError(f"{PROGRAM} could not read {text[:80]!r}: {done.stderr.strip()[:200]}")
        tied = _TIES.sub(lambda match: _TIED[match[0]], _SWITCH.sub("", done.stdout))
        return "".join(symbol for symbol in tied if symbol.isspace() or symbol in self._known)


def _items(text: str) -> Iterator[tuple[WrittenWord | None, str]]:
    """Yield each word with an empty mark, or None with a mark."""
    at = 0
    for own in [*OVERRIDE.finditer(text), None]:
        for match in _PIECE.finditer(text, at, len(text) if own is None else own.start()):
            mark = match["mark"]
            if mark is None:
                yield WrittenWord(match[0], match.start(), match.end(), match[0]), ""
            else:
                yield None, "…" if mark.startswith("..") else _PLAIN_MARKS.get(mark, mark)
        if own is not None:
            yield WrittenWord(own["text"], own.start(), own.end(), own["text"], phonemes=own["phonemes"]), ""
            at = own.end()
