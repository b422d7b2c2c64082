"""How English words are pronounced: the catalog's dictionaries, tagger and letter-to-sound network, loaded once."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from antiphon.audio.speech.lexicon import Accent, Lexicon
from antiphon.audio.speech.phonemes import Phonemizer
from antiphon.audio.speech.tagger import Tagger
from antiphon.errors import CheckpointError
from antiphon.models.letter_to_sound import LetterToSound
from antiphon.models.registry import build_model
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint

CATALOG_NAME = "english-phonemes"
MAX_BYTES = 64 << 20
_FILES = {Accent.AMERICAN: ("us", "oov.onnx"), Accent.BRITISH: ("gb", "oov_gb.onnx")}


class Pronunciation:
    """Phonemizers by accent, each made when it is first asked for. Safe to share between threads."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._tagger: Tagger | None = None
        self._phonemizers: dict[Accent, Phonemizer] = {}

    @classmethod
    def from_catalog(cls, *, offline: bool = False) -> Pronunciation:
        return cls(resolve(CATALOG_NAME, offline=offline).files)

    def phonemizer(self, accent: Accent) -> Phonemizer:
        with self._lock:
            if accent not in self._phonemizers:
                if self._tagger is None:
                    self._tagger = Tagger(_table(self._files["tagger.json.gz"]))
                folder, network = _FILES[accent]
                gold = _table(self._files[f"lexicon_{folder}_gold.json.gz"])
                silver = _table(self._files[f"lexicon_{folder}_silver.json.gz"])
                unknown = _Unknown(self._files[network])
                self._phonemizers[accent] = Phonemizer(Lexicon(gold, silver, accent), self._tagger, unknown)
            return self._phonemizers[accent]


class _Unknown:
    """The letter-to-sound network, one word at a time; words that were asked for are remembered."""

    MAX_REMEMBERED = 4096

    def __init__(self, path: Path) -> None:
        model = build_model(open_checkpoint(path))
        assert isinstance(model, LetterToSound)
        self._model = model
        self._lock = threading.Lock()
        self._known: dict[str, str | None] = {}

    def __call__(self, word: str) -> str | None:
        with self._lock, torch.inference_mode():
            if word not in self._known:
                if len(self._known) >= self.MAX_REMEMBERED:
                    self._known.clear()
                self._known[word] = self._model.pronounce(word)
            return self._known[word]


def _table(path: Path) -> dict[str, Any]:
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_BYTES + 1)
        table = json.loads(content)
    except (OSError, EOFError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    if len(content) > MAX_BYTES or not isinstance(table, dict):
        raise CheckpointError(f"{path} is no JSON table of at most {MAX_BYTES} bytes")
    return table
