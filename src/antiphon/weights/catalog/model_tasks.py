"""Tasks of models in words, the catalog's models for each task, and the error for a model of another task."""

from __future__ import annotations

from antiphon.errors import UnsupportedError
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.references import is_unknown_name, unknown_model

#: Words for a task in a sentence, by the engine's name of the task.
TASK_NAMES = {
    "generate": "text generation",
    "embed": "embeddings",
    "score": "scores",
    "transcribe": "transcription",
    "synthesize": "speech",
}
#: The engine's task by the catalog's, for tasks that the engine serves.
CATALOG_TASKS = {
    "chat": "generate",
    "completion": "generate",
    "embedding": "embed",
    "transcription": "transcribe",
    "speech": "synthesize",
}
#: Words for a model, by its task in the catalog or in the engine.
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
#: Command and `Engine` method, by the engine's task.
CALLS = {"embed": ("embed", "embed"), "transcribe": ("transcribe", "transcribe"), "synthesize": ("speak", "speak")}


def wrong_task(name: str, own: str, wanted: str) -> UnsupportedError:
    """Build the error for a model of another task. `own` is the catalog's or the engine's name of the model's task."""
    kind = KINDS.get(own, f"for {own}")
    call = CALLS.get(CATALOG_TASKS.get(own, own))
    if wanted == "generate" and call is not None:
        command, method = call
        return UnsupportedError(f"{name} is {kind}; use `antiphon {command}`, or Engine.{method} in Python")
    tried = [name for name in models_for(wanted) if catalog()[name].is_tried]
    return UnsupportedError(f"{name} is {kind}; for {TASK_NAMES[wanted]} use one of: {', '.join(tried)}")


def models_for(task: str) -> list[str]:
    """Return the names of the catalog's models for one of the engine's tasks."""
    return sorted(name for name, entry in catalog().items() if CATALOG_TASKS.get(entry.task) == task)


def catalog_task(reference: str) -> str | None:
    """Return the engine's task of a catalog model, or None for other references and for tasks it does not serve."""
    entry = catalog().get(reference.lower())
    return None if entry is None else CATALOG_TASKS.get(entry.task)


def check_reference(reference: str, wanted: str) -> None:
    """Reject an unknown name, with near names of models for the task, and a catalog model of another task.

    Paths and hub references are not checked.
    """
    if is_unknown_name(reference):
        raise unknown_model(reference, models_for(wanted) or None)
    check_catalog_task(reference, wanted)


def check_catalog_task(reference: str, wanted: str) -> None:
    """Reject a catalog model of another task. Other references are not checked."""
    entry = catalog().get(reference.lower())
    if entry is not None and CATALOG_TASKS.get(entry.task) != wanted:
        raise wrong_task(entry.name, entry.task, wanted)
