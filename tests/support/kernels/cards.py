"""Device for cases that run on a GPU if there is one, and otherwise imitate a GPU with the CPU's memory."""

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
    """Device with its tensors on the CPU that otherwise acts as a GPU. Triton's interpreter runs its kernels."""

    @property
    def name(self) -> str:
        return "card"

    @property
    def is_cpu(self) -> bool:
        return False


def imitated_card() -> ImitatedCard:
    """Return an imitated card without kernels: its operations are the CPU's."""
    return ImitatedCard(torch.device("cpu"), ops.active_backend(), torch.float32, DeviceLimits("a card", 1 << 40))


def a_card(compute_type: torch.dtype = torch.float32) -> Device:
    """Return a GPU, or an imitated card if there is none; in fp32 by default, so that results match the CPU's."""
    kind = Device if torch.cuda.is_available() else ImitatedCard
    place = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    return kind(place, ops.get_backend("triton"), compute_type, DeviceLimits("a card", 1 << 40))


def loaded_on(device: Device, model: Model, tokenizer: Tokenizer, name: str) -> LoadedModel:
    """Place a model on a device and prepare its weights in the device's compute type."""
    if not device.is_cpu:
        model.place(device.torch)
        for node in model.modules():
            node.set_compute_type(None if device.compute_type is torch.float32 else device.compute_type)
        device.backend.prepare_weights(list(model.weights()), device=device.torch, dtype=device.compute_type)
    return LoadedModel(name, model, tokenizer, None, frozenset(), LoadReport(), device=device)
