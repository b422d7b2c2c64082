"""`check_speculation`: a check of the setting `speculate` before anything is loaded."""

from __future__ import annotations

from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError, ModelNotFoundError
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS, KINDS
from antiphon.weights.catalog.references import check_references


def check_speculation(value: str) -> None:
    """Reject a value that is not `off`, `ngram` or an existing model; a catalog model must generate text."""
    if Speculation.of_engine(value) is not Speculation.DRAFT:
        return
    try:
        check_references([value])
    except ModelNotFoundError as error:
        raise InvalidRequestError(f"speculate is {value!r}; it must be off, ngram or a model: {error}") from error
    entry = catalog().get(value.lower())
    if entry is not None and CATALOG_TASKS.get(entry.task) != "generate":
        raise InvalidRequestError(f"speculate is {value!r}, which is {KINDS[entry.task]}; a draft model generates text")
