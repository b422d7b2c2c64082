"""What the names of voices say, without torch: which files are voices, their languages, which models have them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import models_for

#: Kokoro's voices are named by language, then f or m: `af_bella`.
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
    """The voices whose files, `voices/*.bin`, are among a model's files."""
    paths = map(PurePosixPath, files)
    return sorted(path.stem for path in paths if path.suffix == ".bin" and str(path.parent) == "voices")


def voice_language(name: str) -> str:
    return LANGUAGES.get(name[0], "en-us") if name[1:3] in ("f_", "m_") else "en-us"


def voice_gender(name: str) -> str | None:
    return GENDERS.get(name[1]) if name[2:3] == "_" else None


def catalog_voices(model: str) -> list[str] | None:
    """The voices of one of the catalog's speech models; None of any other model."""
    if model.lower() not in models_for("synthesize"):
        return None
    return voices_among(file.name for file in catalog()[model.lower()].files) or [ONLY_VOICE]


def models_with_voice(name: str) -> list[str]:
    """The catalog's speech models that have this voice."""
    return [model for model in models_for("synthesize") if name in (catalog_voices(model) or ())]
