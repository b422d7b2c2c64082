"""`SlotContext`: what the slot of a part is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.policies.policy import Policy
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_sizes import DeviceSizes
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots.arena import Arena

#: Steps of a model in flight on a GPU: one is launched while the results of the one before it are on their way.
DEVICE_DEPTH = 2


@dataclass(frozen=True)
class SlotContext:
    """The slot's name, its model, and the engine that it becomes part of."""

    name: str
    loaded: LoadedModel
    arena: Arena
    config: EngineConfig
    #: Slots of the same model that exist already, by role; the part that this one feeds is among them.
    made: Mapping[str, ModelSlot]
    #: A smaller model with the same vocabulary, which drafts its tokens.
    draft: LoadedModel | None = None

    @property
    def sizes(self) -> DeviceSizes:
        """Of steps on the model's device."""
        return self.config.sizes(self.loaded.device)

    def priority_policy(self) -> Policy:
        """The configured policy; by priority where it is by arrival."""
        by_arrival = self.config.policy == "fcfs"
        return (replace(self.config, policy="priority") if by_arrival else self.config).make_policy()
