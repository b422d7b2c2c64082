"""Word and character error rates by `jiwer`, after the normalisation that Whisper's authors measure with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from antiphon.dependencies import import_dependency

Normalize = Callable[[str], str]

#: Languages that are written without spaces; Whisper's paper compares their characters.
WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


@dataclass(frozen=True)
class Alignment:
    """The least number of changes from a reference to a hypothesis, in words or characters."""

    hits: int
    substitutions: int
    deletions: int
    insertions: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def length(self) -> int:
        """Of the reference."""
        return self.hits + self.substitutions + self.deletions


@cache
def normalizer(language: str = "en") -> Normalize:
    """Whisper's normaliser of a language by its code: of words and numbers for English, of marks for all others."""
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
    """Spaces between words are characters too."""
    return _alignment(_jiwer().process_characters(reference, hypothesis))


def _alignment(found: Any) -> Alignment:
    return Alignment(found.hits, found.substitutions, found.deletions, found.insertions)


def _jiwer() -> Any:
    return import_dependency("jiwer", "an error rate")
