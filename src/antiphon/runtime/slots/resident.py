"""The slots of a loaded model: one for each part that the model declares."""

from __future__ import annotations

from antiphon import ops
from antiphon.engine.model_slot import ModelSlot
from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Model, Task
from antiphon.models.base.parts import Encoder, Part
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.context import SlotContext
from antiphon.runtime.slots.registry import SLOT_MAKERS
from antiphon.weights.catalog.model_tasks import KINDS


def slot_name(model: str, part: Part | type[Part]) -> str:
    """Return the name of a part's slot: the model's own, with the role appended if the part feeds another part."""
    return model if part.feeds is None else f"{model} {part.role}"


def encoder_name(model: str) -> str:
    return slot_name(model, Encoder)


def slot_names(name: str, model: Model) -> list[str]:
    return [slot_name(name, part) for part in _in_order(model)]


def make_slots(
    loaded: LoadedModel, arena: Arena, config: EngineConfig, draft: LoadedModel | None = None
) -> list[ModelSlot]:
    """Create the slots (scheduler and executor) of all parts of a model on the arena, with a draft model if given.

    Raise UnsupportedError if the model has no part that the engine can serve.
    """
    made: dict[str, ModelSlot] = {}
    for part in _in_order(loaded.model):
        context = SlotContext(slot_name(loaded.name, part), loaded, arena, config, made, draft)
        made[part.role] = slot = SLOT_MAKERS[type(part)](part, context)
        slot.device, slot.computes_in_submit = loaded.device.name, loaded.device.is_cpu
        slot.translate, slot.role = loaded.device.translate, part.role
    if not made:
        task = loaded.model.task
        kind = KINDS.get(task, f"for {task}")
        raise UnsupportedError(f"{loaded.name} is {kind}; the engine uses it inside other models and cannot serve it")
    return list(made.values())


def _in_order(model: Model) -> list[Part]:
    """Return the model's parts, each after the part that it feeds."""
    return sorted(model.parts(), key=lambda part: part.feeds is not None)


def check_batch_invariance(device: Device, loaded: LoadedModel | None = None) -> None:
    """Raise UnsupportedError unless the device, and the model if given, supports batch-invariant mode.

    The mode needs kernels that treat every row alike; GPUs have them for text generation only.
    """
    if ops.active_backend(device.torch.type).name == "reference":
        missing = (
            "native kernels, and this installation was made without a C++ compiler"
            if device.is_cpu
            else f"Triton kernels on {device.name}, and the package triton is missing: install it, or use the CPU"
        )
        raise UnsupportedError(f"batch-invariant mode needs the {missing}")
    if loaded is not None and not device.is_cpu and loaded.model.task is not Task.GENERATE:
        kind = KINDS.get(loaded.model.task, f"for {loaded.model.task}")
        raise UnsupportedError(
            f"{loaded.name} is {kind}; on {device.name} batch-invariant mode is for text generation only: use the "
            "device cpu for it, or do without batch_invariant"
        )
