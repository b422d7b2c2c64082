"""Voice names, without torch: which files are voices, their languages, and which models have them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import models_for

#: Language by the first letter of a Kokoro voice; the second letter is f or m: `af_bella`.
LANGUAGES = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "zh",
}
GENDERS = {"f": "female", "m": "male"}
#: The voice of a model that has no voice files.
ONLY_VOICE = "heart"


def voices_among(files: Iterable[str]) -> list[str]:
    """Return the names of the voice files, `voices/*.bin`, among a model's files, sorted."""
    paths = map(PurePosixPath, files)
    return sorted(path.stem for path in paths if path.suffix == ".bin" and str(path.parent) == "voices")


def voice_language(name: str) -> str:
    return LANGUAGES.get(name[0], "en-us") if name[1:3] in ("f_", "m_") else "en-us"


def voice_gender(name: str) -> str | None:
    return GENDERS.get(name[1]) if name[2:3] == "_" else None


def catalog_voices(model: str) -> list[str] | None:
    """Return the voices of a speech model of the catalog; None for any other model."""
    if model.lower() not in models_for("synthesize"):
        return None
    return voices_among(file.name for file in catalog()[model.lower()].files) or [ONLY_VOICE]


def models_with_voice(name: str) -> list[str]:
    return [model for model in models_for("synthesize") if name in (catalog_voices(model) or ())]
