"""From clauses to utterances: phoneme ids, cut to the model's maximum length, with the words they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from antiphon.audio.speech.clauses import Clause
from antiphon.audio.speech.espeak import EspeakPhonemizer
from antiphon.audio.speech.phonemes import Phonemizer, SpokenClause
from antiphon.audio.speech.words import OVERRIDE
from antiphon.errors import InvalidRequestError, MissingDependencyError, UnsupportedError
from antiphon.models.base.speech_state import Speech, Utterance
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.runtime.calls.port import CallEngine
from antiphon.runtime.calls.speech import TimedWord
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.speech.pronunciation import Pronunciation
from antiphon.runtime.speech.seams import CLAUSE_PAUSE, PARAGRAPH_PAUSE, PHRASE_PAUSE, SENTENCE_PAUSE
from antiphon.runtime.voices.book import ACCENTS, VoiceBook, language_tag

PAD = 0
#: Maximum speed at which models speak. Beyond it, sounds have too few frames to be told apart, so the sound is
#: compressed instead.
FASTEST_SPOKEN = 1.5


@dataclass(frozen=True)
class Piece:
    """An utterance, its text, and the pause after it. `owners` is the word index of every id, or -1."""

    utterance: Utterance
    text: str
    words: tuple[str, ...]
    owners: tuple[int, ...]
    pause: float
    skipped: tuple[str, ...]
    space: int = -1  # id of the space symbol
    lead_samples: int = 0  # samples by which a phoneme is heard before its duration says

    def timed_words(self, speech: Speech, start: float, offset: int, rate: int) -> tuple[TimedWord, ...]:
        """Return when each word is heard, if sample `offset` of the speech is heard at `start` seconds.

        The space between two words belongs to both in equal parts.
        """
        ends = list(accumulate(speech.id_samples))
        spans: dict[int, tuple[float, float]] = {}
        for index, (owner, end) in enumerate(zip(self.owners, ends, strict=True)):
            if owner >= 0:
                begun = end - speech.id_samples[index] - self._half_space(speech, index - 1)
                spans[owner] = (spans.get(owner, (begun, begun))[0], end + self._half_space(speech, index + 1))
        moved = start - (offset + self.lead_samples) / rate
        return tuple(
            TimedWord(self.words[owner], max(start, moved + first / rate), max(start, moved + last / rate))
            for owner, (first, last) in sorted(spans.items())
        )

    def _half_space(self, speech: Speech, index: int) -> float:
        is_space = self.owners[index] < 0 and self.utterance.ids[index] == self.space
        return speech.id_samples[index] / 2 if is_space else 0.0


class SpeechEngine(CallEngine, Protocol):
    """The part of a front end that calls of speech use."""

    def speaker(self, model: str | None) -> Speaker: ...


class Speaker:
    """A loaded speech model with its voices and the pronunciation of what it reads."""

    def __init__(self, loaded: LoadedModel, pronunciation: Pronunciation) -> None:
        if not isinstance(loaded.model, Synthesizer) or loaded.voices is None:
            raise UnsupportedError(f"model {loaded.name!r} is for {loaded.model.task.value}, it does not speak")
        self.loaded = loaded
        self.model: Synthesizer = loaded.model
        self.voices: VoiceBook = loaded.voices
        self.pronunciation = pronunciation


class Reader:
    """Reader of the clauses of one text as utterances. Its constructor rejects an unknown voice or language."""

    def __init__(self, speaker: Speaker, options: SpeechOptions) -> None:
        self._model = speaker.model
        self._voices = speaker.voices
        self._voice = speaker.voices.parse(options.voice)
        self._options = options
        phonemizer = self._phonemizer_for(speaker)
        for word, phonemes in options.pronunciations.items():
            self._check(word, phonemes)
        own = options.pronunciations
        self._phonemizer = phonemizer.with_overrides(own) if own else phonemizer
        self._max_symbols = self._model.max_positions - 2

    def _phonemizer_for(self, speaker: Speaker) -> Phonemizer | EspeakPhonemizer:
        language = self._options.language or self._voice.language
        try:
            tag = language_tag(language)
            if tag in ACCENTS:
                return speaker.pronunciation.phonemizer(ACCENTS[tag])
            if tag not in self._voices.languages:
                name, there = speaker.loaded.name, ", ".join(self._voices.languages)
                raise InvalidRequestError(f"no voice of model {name!r} speaks {tag}; they speak: {there}")
            return EspeakPhonemizer(tag, self._model.symbols)
        except (InvalidRequestError, MissingDependencyError) as error:
            if self._options.language is not None:
                raise
            raise type(error)(
                f"voice {self._voice.name!r} speaks {language}: {error}; with language='en-us' it reads English"
            ) from None

    def _check(self, word: str, phonemes: str) -> None:
        unknown = sorted({symbol for symbol in phonemes if symbol not in self._model.symbols})
        if unknown or not phonemes.strip():
            raise InvalidRequestError(
                f"the pronunciation {phonemes!r} of {word!r} has symbols that the model does not know: "
                f"{' '.join(unknown) or 'none at all'}"
            )

    def pieces(self, clause: Clause) -> Iterator[Piece]:
        """Yield the utterances of a clause; an empty utterance if it has only text that cannot be read."""
        spoken = self._phonemizer(clause.text)
        pause = PHRASE_PAUSE if clause.text[-1].isalnum() else CLAUSE_PAUSE
        if clause.ends_sentence:
            pause = PARAGRAPH_PAUSE if clause.ends_paragraph else SENTENCE_PAUSE
        groups = list(self._groups(spoken))
        written = OVERRIDE.sub(r"\g<text>", clause.text)
        if not groups and spoken.skipped:
            yield Piece(Utterance((), self._voices.style(self._voice, 0)), clause.text, (), (), 0.0, spoken.skipped)
        for index, (symbols, owners) in enumerate(groups):
            last = index == len(groups) - 1
            style = self._voices.style(self._voice, len(symbols))
            speed = min(self._options.speed, FASTEST_SPOKEN)
            utterance = Utterance((PAD, *symbols, PAD), style, speed, self._options.seed)
            used = sorted({owner for owner in owners if owner >= 0})
            numbers = {owner: number for number, owner in enumerate(used)}
            yield Piece(
                utterance,
                written if len(groups) == 1 else " ".join(spoken.words[owner].text for owner in used),
                tuple(spoken.words[owner].text for owner in used),
                (-1, *(numbers.get(owner, -1) for owner in owners), -1),
                (pause if last else CLAUSE_PAUSE) / self._options.speed,
                spoken.skipped if last else (),
                self._model.symbols.get(" ", -1),
                self._model.lead_samples,
            )

    def _groups(self, spoken: SpokenClause) -> Iterator[tuple[list[int], list[int]]]:
        """Yield phoneme ids and their word indices in groups that the model takes, cut between words if possible."""
        table = self._model.symbols
        symbols: list[int] = []
        owners: list[int] = []
        for piece, owner in spoken.pieces():
            if owner >= 0:
                self._check(spoken.words[owner].text, piece)
            ids = [table[symbol] for symbol in piece if symbol in table]
            if symbols and len(symbols) + len(ids) > self._max_symbols:
                yield symbols, owners
                symbols, owners = [], []
            while len(ids) > self._max_symbols:
                yield ids[: self._max_symbols], [owner] * self._max_symbols
                ids = ids[self._max_symbols :]
            if symbols or piece != " ":
                symbols += ids
                owners += [owner] * len(ids)
        if any(owner >= 0 for owner in owners):
            yield symbols, owners
