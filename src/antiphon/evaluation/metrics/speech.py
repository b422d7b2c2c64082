"""Word and character error rates by `jiwer`, after the normalisation of Whisper's authors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from antiphon.dependencies import import_dependency

Normalize = Callable[[str], str]

#: Languages that are written without spaces, for which Whisper's paper compares characters.
WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


@dataclass(frozen=True)
class Alignment:
    """Minimum edits from a reference to a hypothesis, in words or characters."""

    hits: int
    substitutions: int
    deletions: int
    insertions: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def length(self) -> int:
        """Number of words or characters in the reference."""
        return self.hits + self.substitutions + self.deletions


@cache
def normalizer(language: str = "en") -> Normalize:
    """Return Whisper's normaliser for a language code: words and numbers for English, only marks for others."""
    module = import_dependency("whisper.normalizers", "Whisper's normalisation of text", "openai-whisper")
    normalize: Normalize = (
        module.EnglishTextNormalizer()
        if language == "en"
        else module.BasicTextNormalizer(split_letters=language in WITHOUT_SPACES)
    )
    return lambda text: normalize(text).strip()


def align_words(reference: str, hypothesis: str) -> Alignment:
    return _alignment(_jiwer().process_words(reference, hypothesis))


def align_characters(reference: str, hypothesis: str) -> Alignment:
    """Align two texts by character, including spaces."""
    return _alignment(_jiwer().process_characters(reference, hypothesis))


def _alignment(found: Any) -> Alignment:
    return Alignment(found.hits, found.substitutions, found.deletions, found.insertions)


def _jiwer() -> Any:
    return import_dependency("jiwer", "an error rate")
