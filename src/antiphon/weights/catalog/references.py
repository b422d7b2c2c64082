"""A check of model references before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from antiphon.errors import ModelNotFoundError
from antiphon.weights.catalog.catalog import catalog, find_entry


def check_references(references: Iterable[str]) -> None:
    """Raise `ModelNotFoundError` if a model does not exist; `hub:` references are not checked."""
    for reference in references:
        if reference.startswith("hub:") or reference.lower() in catalog() or Path(reference).expanduser().exists():
            continue
        if "/" in reference:
            raise ModelNotFoundError(f"there is no model at {reference}")
        find_entry(reference)
