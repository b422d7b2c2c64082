"""A card for cases that run on a GPU where there is one, and else imitate it with the CPU's memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from antiphon import ops
from antiphon.models.base.model import Model
from antiphon.ops import Device
from antiphon.ops.device import DeviceLimits
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import LoadReport
from antiphon.text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class ImitatedCard(Device):
    """Tensors are on the CPU, and everything else is as on a GPU. Triton's interpreter runs the kernels."""

    @property
    def name(self) -> str:
        return "card"

    @property
    def is_cpu(self) -> bool:
        return False


def imitated_card() -> ImitatedCard:
    """A card without kernels, whose operations are those of the CPU."""
    return ImitatedCard(torch.device("cpu"), ops.active_backend(), torch.float32, DeviceLimits("a card", 1 << 40))


def a_card(compute_type: torch.dtype = torch.float32) -> Device:
    """In fp32 unless another type is given, so that results are the CPU's."""
    kind = Device if torch.cuda.is_available() else ImitatedCard
    place = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    return kind(place, ops.get_backend("triton"), compute_type, DeviceLimits("a card", 1 << 40))


def loaded_on(device: Device, model: Model, tokenizer: Tokenizer, name: str) -> LoadedModel:
    """The model made ready to run on a device, its weights in the device's compute type."""
    if not device.is_cpu:
        model.place(device.torch)
        for node in model.modules():
            node.set_compute_type(None if device.compute_type is torch.float32 else device.compute_type)
        device.backend.prepare_weights(list(model.weights()), device=device.torch, dtype=device.compute_type)
    return LoadedModel(name, model, tokenizer, None, frozenset(), LoadReport(), device=device)
