"""`Detectors`: the small models that calls use beside their own, such as voice activity."""

from __future__ import annotations

from typing import Any, Protocol

from antiphon.engine.request import Priority
from antiphon.models.base.model import Model


class Detectors(Protocol):
    """For any thread. A detector is loaded when it is first used."""

    def model(self, name: str) -> Model:
        """The detector of that reference, loaded if necessary. Raises why it cannot be."""

    def run(self, name: str, inputs: Any, priority: Priority = Priority.NORMAL) -> Any:
        """The result for one input; waits for it. Inputs of several calls are computed together."""
