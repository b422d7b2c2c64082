"""`SlotContext`: the inputs from which the slot of a model part is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.policies.policy import Policy
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_sizes import DeviceSizes
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots.arena import Arena

#: Steps of a model in flight on a GPU: the next is launched while the results of the last are on their way.
DEVICE_DEPTH = 2


@dataclass(frozen=True)
class SlotContext:
    """Inputs of a slot: its name, its loaded model, and the arena and configuration of the engine."""

    name: str
    loaded: LoadedModel
    arena: Arena
    config: EngineConfig
    #: Slots of the same model that exist already, by role, including the part that this one feeds.
    made: Mapping[str, ModelSlot]
    #: Draft model: a smaller model with the same vocabulary.
    draft: LoadedModel | None = None

    @property
    def sizes(self) -> DeviceSizes:
        """Step limits and page types on the model's device."""
        return self.config.sizes(self.loaded.device)

    def priority_policy(self) -> Policy:
        """Return the configured policy, or the priority policy where requests are configured to run by arrival."""
        by_arrival = self.config.policy == "fcfs"
        return (replace(self.config, policy="priority") if by_arrival else self.config).make_policy()
