"""Model definitions for tests, written as they would be in `antiphon.models`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import antiphon.models

FOLDER = str(Path(__file__).parent)


@contextmanager
def registered() -> Iterator[None]:
    """Make the files of this folder importable as modules of `antiphon.models` while the block runs."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(antiphon.models, "__path__", [*antiphon.models.__path__, FOLDER])
        yield
    for path in Path(FOLDER).glob("*.py"):
        name = f"antiphon.models.{path.stem}"
        if name not in before:
            sys.modules.pop(name, None)
