"""Pronunciation of English words: the catalog's dictionaries and tagger, and the letter-to-sound networks."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from antiphon.audio.speech.lexicon import Accent, Lexicon
from antiphon.audio.speech.phonemes import Phonemizer
from antiphon.audio.speech.tagger import Tagger
from antiphon.errors import CheckpointError
from antiphon.models.base.companions import LETTER_TO_SOUND
from antiphon.regular_file import open_regular
from antiphon.runtime.calls.detectors import Detectors
from antiphon.weights.catalog.resolve import resolve

CATALOG_NAME = "english-phonemes"
MAX_BYTES = 64 << 20
#: Words whose pronunciation by a network is cached.
MAX_REMEMBERED = 4096
_FILES = {Accent.AMERICAN: ("us", LETTER_TO_SOUND["en-us"]), Accent.BRITISH: ("gb", LETTER_TO_SOUND["en-gb"])}


class Pronunciation:
    """Phonemizers by accent, each created on first use. Safe to share between threads."""

    def __init__(self, files: Mapping[str, Path], detectors: Detectors) -> None:
        self._files = files
        self._detectors = detectors
        self._lock = threading.Lock()
        self._tagger: Tagger | None = None
        self._phonemizers: dict[Accent, Phonemizer] = {}

    @classmethod
    def from_catalog(cls, detectors: Detectors, *, offline: bool = False) -> Pronunciation:
        return cls(resolve(CATALOG_NAME, offline=offline).files, detectors)

    def phonemizer(self, accent: Accent) -> Phonemizer:
        with self._lock:
            if accent not in self._phonemizers:
                if self._tagger is None:
                    self._tagger = Tagger(_table(self._files["tagger.json.gz"]))
                folder, network = _FILES[accent]
                gold = _table(self._files[f"lexicon_{folder}_gold.json.gz"])
                silver = _table(self._files[f"lexicon_{folder}_silver.json.gz"])
                self._detectors.model(network)  # raises if it cannot be loaded
                unknown = lru_cache(MAX_REMEMBERED)(partial(self._detectors.run, network))
                self._phonemizers[accent] = Phonemizer(Lexicon(gold, silver, accent), self._tagger, unknown)
            return self._phonemizers[accent]


def _table(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as stored, gzip.open(stored) as file:
            content = file.read(MAX_BYTES + 1)
        table = json.loads(content)
    except (OSError, EOFError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    if len(content) > MAX_BYTES or not isinstance(table, dict):
        raise CheckpointError(f"{path} is no JSON table of at most {MAX_BYTES} bytes")
    return table
