"""`Detectors`: the small models that calls use beside their own, such as voice activity detection."""

from __future__ import annotations

from typing import Any, Protocol

from antiphon.engine.request import Priority
from antiphon.models.base.model import Model


class Detectors(Protocol):
    """Access to detectors from any thread. A detector is loaded on first use."""

    def model(self, name: str) -> Model:
        """Return the detector with that name, loaded if necessary. Raise the error if loading fails."""

    def run(self, name: str, inputs: Any, priority: Priority = Priority.NORMAL) -> Any:
        """Wait for the result for one input and return it. Inputs of several calls are computed together."""
