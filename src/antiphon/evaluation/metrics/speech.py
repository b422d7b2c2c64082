"""Word and character error rates by `jiwer`, after the normalisation that Whisper's authors measure with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from antiphon.dependencies import import_dependency
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.statistics import Score, ratio_of_sums

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

    @property
    def rate(self) -> float:
        """Errors over the length of the reference. For an empty reference it is the number of insertions."""
        return self.errors / self.length if self.length else float(self.errors)

    def __add__(self, other: Alignment) -> Alignment:
        return Alignment(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


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


def word_error_rate(references: Sequence[str], hypotheses: Sequence[str], language: str = "en") -> Score:
    """All errors over all words of the references, both normalised."""
    return _error_rate(align_words, references, hypotheses, language)


def character_error_rate(references: Sequence[str], hypotheses: Sequence[str], language: str = "en") -> Score:
    """All errors over all characters of the references, both normalised."""
    return _error_rate(align_characters, references, hypotheses, language)


def error_rate(alignments: Sequence[Alignment]) -> Score:
    """The error rate of a corpus, from the alignments of its items."""
    rows = [(alignment.errors, alignment.length) for alignment in alignments]
    return Score.of_rows(rows, ratio_of_sums, [alignment.rate for alignment in alignments])


def _error_rate(
    align: Callable[[str, str], Alignment], references: Sequence[str], hypotheses: Sequence[str], language: str
) -> Score:
    if len(references) != len(hypotheses):
        raise InvalidRequestError(f"{len(references)} references were given with {len(hypotheses)} hypotheses")
    normalize = normalizer(language)
    pairs = zip(references, hypotheses, strict=True)
    return error_rate([align(normalize(reference), normalize(hypothesis)) for reference, hypothesis in pairs])


def _alignment(found: Any) -> Alignment:
    return Alignment(found.hits, found.substitutions, found.deletions, found.insertions)


def _jiwer() -> Any:
    return import_dependency("jiwer", "an error rate")
