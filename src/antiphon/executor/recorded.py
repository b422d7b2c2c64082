"""A model's functions as native programs, recorded on first use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from antiphon import ops
from antiphon.models.base.model import Model
from antiphon.models.base.parts import Recordable
from antiphon.ops import KVCache
from antiphon.ops.native.program import Program
from antiphon.ops.program import Recording, record

logger = logging.getLogger(__name__)


def make_recording(recordable: Recordable) -> Recording:
    """Record a function as instructions. Raise `UnrecordableError` with the reason if that is not possible."""
    return record(recordable.function, recordable.inputs, recordable.groups)


def recordings(model: Model, cache: KVCache) -> dict[str, Callable[[], Recording]]:
    """Return calls that record the functions which a model declares as recordable, by name."""
    declared = [recordable for part in model.parts() for recordable in part.recordables(cache)]
    return {recordable.name: partial(make_recording, recordable) for recordable in declared}


class Recorded:
    """Native program of a function, recorded on first use if that is possible."""

    def __init__(self, recordable: Recordable, wanted: bool = True) -> None:
        self._recordable = recordable
        self._wanted = wanted
        self._program: Program | None = None

    def program(self) -> Program | None:
        """Return the program; None if it cannot be made or this thread's operations run on another backend."""
        if not self._wanted or ops.active_backend().name != "native":
            return None
        if self._program is None:
            try:
                self._program = Program(make_recording(self._recordable))
            except Exception as error:
                self._wanted = False
                owner = self._recordable.owner
                logger.warning("%s runs operation by operation: %s: %s", owner, type(error).__name__, error)
        return self._program
