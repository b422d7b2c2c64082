"""The tasks of models in words: which models of the catalog fit a task, and the error for one that does not."""

from __future__ import annotations

from antiphon.errors import UnsupportedError
from antiphon.weights.catalog.catalog import catalog

#: What a task is called in a sentence, by the engine's name of it.
TASK_NAMES = {
    "generate": "text generation",
    "embed": "embeddings",
    "score": "scores",
    "transcribe": "transcription",
    "synthesize": "speech",
}
#: The catalog's tasks that the engine serves, and the engine's names of them.
CATALOG_TASKS = {
    "chat": "generate",
    "completion": "generate",
    "embedding": "embed",
    "transcription": "transcribe",
    "speech": "synthesize",
}
#: What a model is, by its task in the catalog or in the engine.
KINDS = {
    "chat": "a chat model",
    "completion": "a completion model",
    "generate": "a language model",
    "embedding": "an embedding model",
    "embed": "an embedding model",
    "score": "a cross-encoder",
    "transcription": "a transcription model",
    "transcribe": "a transcription model",
    "speech": "a speech model",
    "synthesize": "a speech model",
    "voice-activity": "a voice activity detector",
    "end-of-turn": "an end-of-turn detector",
    "phonemes": "a pronunciation model",
    "phonemize": "a pronunciation model",
}
#: The command for a task, and the method of `Engine`.
CALLS = {"embed": ("embed", "embed"), "transcribe": ("transcribe", "transcribe"), "synthesize": ("speak", "speak")}


def wrong_task(name: str, own: str, wanted: str) -> UnsupportedError:
    """The error for a model that is for another task. `own` is the catalog's or the engine's name of its task."""
    kind = KINDS.get(own, f"for {own}")
    call = CALLS.get(CATALOG_TASKS.get(own, own))
    if wanted == "generate" and call is not None:
        command, method = call
        return UnsupportedError(f"{name} is {kind}; use `antiphon {command}`, or Engine.{method} in Python")
    return UnsupportedError(f"{name} is {kind}; for {TASK_NAMES[wanted]} use one of: {', '.join(models_for(wanted))}")


def models_for(task: str) -> list[str]:
    """The catalog's models that fit one of the engine's tasks."""
    return sorted(name for name, entry in catalog().items() if CATALOG_TASKS.get(entry.task) == task)


def catalog_task(reference: str) -> str | None:
    """The engine's task of a model of the catalog that it serves; None for other references."""
    entry = catalog().get(reference.lower())
    return None if entry is None else CATALOG_TASKS.get(entry.task)


def check_catalog_task(reference: str, wanted: str) -> None:
    """Reject a model of the catalog that is for another task. Other references are not checked."""
    entry = catalog().get(reference.lower())
    if entry is not None and CATALOG_TASKS.get(entry.task) != wanted:
        raise wrong_task(entry.name, entry.task, wanted)
