"""The voices of a speech model: their styles, mixtures of them, and the languages they speak."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from antiphon.audio.speech import espeak
from antiphon.audio.speech.lexicon import Accent
from antiphon.errors import CheckpointError, InvalidRequestError
from antiphon.runtime.voices.aliases import aliases_for, unknown_voice, without_aliases
from antiphon.runtime.voices.names import ONLY_VOICE, voice_gender, voice_language, voices_among

_PART = re.compile(r"\s*(?P<name>[\w.-]+?)\s*(?::\s*(?P<weight>\d+(?:\.\d*)?|\.\d+))?\s*")
MAX_PARTS = 16
ACCENTS = {"en-us": Accent.AMERICAN, "en-gb": Accent.BRITISH}
_TAGS = {"en": "en-us", "en-uk": "en-gb", "fr-fr": "fr", "es-es": "es", "it-it": "it", "pt": "pt-br"}


@dataclass(frozen=True)
class VoiceInfo:
    """A voice as listings show it. `aliases` are its other names."""

    name: str
    language: str
    gender: str | None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Voice:
    """A voice or a mixture: weights by name, which add up to 1, and the language of the heaviest voice."""

    name: str
    weights: Mapping[str, float]
    language: str


class VoiceBook:
    """The voices of a model. A voice file holds a style for every number of phonemes, as raw floats."""

    def __init__(self, files: Mapping[str, Path], style_size: int, default: str, languages: Mapping[str, str]) -> None:
        self._files = files
        self._style_size = style_size
        self._languages = languages
        self.default = default
        #: Voices by alias, such as OpenAI's names.
        self.aliases = aliases_for(languages, default)
        self._styles: dict[str, Tensor] = {}
        self._lock = threading.Lock()

    @classmethod
    def beside(cls, files: Mapping[str, Path], style_size: int, model: str) -> VoiceBook:
        """Create the book of a model's `voices/*.bin` files, or of the only voice of a model without styles.

        Raise CheckpointError if a model with styles has no voice files.
        """
        if not style_size:
            return cls({}, 0, ONLY_VOICE, {ONLY_VOICE: voice_language(ONLY_VOICE)})
        found = {name: files[f"voices/{name}.bin"] for name in voices_among(files)}
        if not found:
            raise CheckpointError(f"model {model!r} has no voices/*.bin beside it")
        default = "af_heart" if "af_heart" in found else sorted(found)[0]
        return cls(found, style_size, default, {name: voice_language(name) for name in found})

    @property
    def languages(self) -> list[str]:
        return sorted(set(self._languages.values()))

    @property
    def names(self) -> list[str]:
        return sorted(self._languages)

    def info(self) -> list[VoiceInfo]:
        return [
            VoiceInfo(
                name,
                self._languages[name],
                voice_gender(name),
                tuple(alias for alias, voice in self.aliases.items() if voice == name),
            )
            for name in self.names
        ]

    def parse(self, text: str | None) -> Voice:
        """Parse a voice, an alias, or a mixture such as `af_bella:0.7+af_sky:0.3` (without weights: in equal parts).

        None is the default voice. Raise InvalidRequestError if a voice is unknown.
        """
        text = self.default if text is None else text
        parts = without_aliases(text, self.aliases).split("+")
        if len(parts) > MAX_PARTS:
            raise InvalidRequestError(f"voice mixes {len(parts)} voices; at most {MAX_PARTS} can be mixed")
        weights: dict[str, float] = {}
        for part in parts:
            match = _PART.fullmatch(part)
            if match is None:
                raise InvalidRequestError(f"voice {text!r} is not a name or a mixture such as af_bella:0.7+af_sky:0.3")
            name = match["name"]
            if name not in self._languages:
                raise InvalidRequestError(unknown_voice(name, self.names, self.aliases))
            weights[name] = weights.get(name, 0.0) + (1.0 if match["weight"] is None else float(match["weight"]))
        total = sum(weights.values())
        if total <= 0.0:
            raise InvalidRequestError(f"the weights of voice {text!r} add up to {total}")
        heaviest = max(weights, key=lambda name: weights[name])
        return Voice(text, {name: weight / total for name, weight in weights.items()}, self._languages[heaviest])

    def style(self, voice: Voice, num_phonemes: int) -> Tensor:
        """Return the style of a voice for an utterance of `num_phonemes`; empty for a model with one voice."""
        if not self._style_size:
            return torch.empty(0)
        mixed = torch.zeros(self._style_size)
        for name, weight in voice.weights.items():
            table = self._table(name)
            mixed += weight * table[min(num_phonemes, len(table) - 1)]
        return mixed

    def _table(self, name: str) -> Tensor:
        with self._lock:
            if name not in self._styles:
                path = self._files[name]
                try:
                    values = np.fromfile(path, "<f4")
                except OSError as error:
                    raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
                if not len(values) or len(values) % self._style_size or not np.isfinite(values).all():
                    raise CheckpointError(f"{path} has {len(values)} floats, not rows of {self._style_size}")
                self._styles[name] = torch.from_numpy(values.reshape(-1, self._style_size))
            return self._styles[name]


def language_tag(language: str) -> str:
    """Return the engine's tag of a language. Raise InvalidRequestError if there are no phonemes for the language."""
    plain = language.lower().replace("_", "-")
    tag = _TAGS.get(plain, plain)
    if tag not in ACCENTS and tag not in espeak.VOICES:
        there = ", ".join([*ACCENTS, *espeak.VOICES])
        raise InvalidRequestError(f"there are no phonemes for language {language!r}; choose one of: {there}")
    return tag
