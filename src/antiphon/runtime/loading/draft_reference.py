"""`check_speculation`: a value of `speculate`, checked before anything is loaded."""

from __future__ import annotations

from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError, ModelNotFoundError
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS, KINDS
from antiphon.weights.catalog.references import check_references


def check_speculation(value: str) -> None:
    """Reject what is neither `off` nor `ngram` nor a model that exists and, if the catalog has it, generates text."""
    if Speculation.of_engine(value) is not Speculation.DRAFT:
        return
    try:
        check_references([value])
    except ModelNotFoundError as error:
        raise InvalidRequestError(f"speculate is {value!r}; it must be off, ngram or a model: {error}") from error
    entry = catalog().get(value.lower())
    if entry is not None and CATALOG_TASKS.get(entry.task) != "generate":
        raise InvalidRequestError(f"speculate is {value!r}, which is {KINDS[entry.task]}; a draft model generates text")
