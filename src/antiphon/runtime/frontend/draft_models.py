"""`DraftModels`: an engine's draft model, loaded on each device with a model that it drafts for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Task
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.weights.catalog.model_tasks import KINDS

logger = logging.getLogger("antiphon.models")


class DraftModels:
    """Loader of the configured draft model, which is loaded with the first model that it fits."""

    def __init__(self, config: EngineConfig, load: Callable[[str, str | None], LoadedModel]) -> None:
        self._reference = config.speculate if config.speculation is Speculation.DRAFT else None
        self._load = load
        self._loaded: dict[str, LoadedModel] = {}  # by device

    def model_for(self, loaded: LoadedModel) -> LoadedModel | None:
        """Return the draft model for `loaded`; None if none is configured, it does not fit, or it is the same model."""
        if self._reference is None or loaded.model.task is not Task.GENERATE or self._reference == loaded.name:
            return None
        device = loaded.device.name
        draft = self._loaded.get(device) or self._load(self._reference, device)
        if draft.model.task is not Task.GENERATE:
            kind = KINDS.get(draft.model.task, f"for {draft.model.task}")
            raise UnsupportedError(f"speculate is {self._reference!r}, which is {kind}; a draft model generates text")
        problem = mismatch(loaded, draft)
        if problem:
            logger.warning("%s does not draft for %s: %s", draft.name, loaded.name, problem)
            return None
        self._loaded[device] = draft
        return draft

    def keep(self, devices: Iterable[str]) -> None:
        """Release the draft model on all other devices."""
        used = set(devices)
        self._loaded = {device: draft for device, draft in self._loaded.items() if device in used}


def mismatch(loaded: LoadedModel, draft: LoadedModel) -> str:
    """Return the reason for which one model cannot draft for another; empty if it can."""
    own, other = loaded.tokenizer, draft.tokenizer
    if own.vocab_size != other.vocab_size:
        return f"it has {other.vocab_size:,} tokens, the other {own.vocab_size:,}"
    for token in range(own.vocab_size):
        if own.token_bytes(token) != other.token_bytes(token):
            return f"token {token} is {other.token_bytes(token)!r} there, and {own.token_bytes(token)!r} in the other"
    return ""
