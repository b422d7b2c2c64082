"""Form of the weights of a loaded model: as stored, packed for the processor, or quantised."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from antiphon import ops
from antiphon.errors import InvalidRequestError, UnsupportedError
from antiphon.layers.module import Halvable, Module
from antiphon.models.base.model import Model
from antiphon.models.base.parts import WeightRules
from antiphon.ops import Device, WeightForm
from antiphon.weights.types import TORCH_DTYPES, TensorType
from antiphon.weights.weight import Weight

#: Types of quantised float weights: that of matrices, and that of embeddings and heads.
QUANTIZATIONS = {
    "int8": (TensorType.Q8_0, TensorType.Q8_0),
    "q4": (TensorType.Q4_1, TensorType.Q8_0),
    "fp8": (TensorType.F8_E4M3, TensorType.Q8_0),
}

#: Backend of GPUs, which computes with 8-bit floats.
GPU_BACKEND = "triton"

#: Precisions of speech models: 16-bit floats if the processor or the GPU has them, or 32 bits throughout.
PRECISIONS = ("fast", "fp32")


@dataclass(frozen=True)
class WeightOptions:
    """Options of the weights' form. `repack` copies quantised weights into the order that kernels read fastest.

    `quantize` applies to float weights; "auto" is int8 for transcription models and none for others. `precision` is for
    speech models: `fast` lets them compute in 16-bit floats.
    """

    repack: bool = True
    quantize: str | None = None
    precision: str = "fast"

    def __post_init__(self) -> None:
        choices = ("auto", "none", *QUANTIZATIONS)
        if self.quantize is not None and self.quantize not in choices:
            raise InvalidRequestError(f"quantize is {self.quantize!r}; it must be one of: {', '.join(choices)}")
        if self.precision not in PRECISIONS:
            raise InvalidRequestError(f"precision is {self.precision!r}; it must be one of: {', '.join(PRECISIONS)}")

    def quantize_for(self, rules: WeightRules, backend: str) -> str | None:
        """Return the quantisation of a model's float weights, or None. Only the native backend has a default."""
        if not rules.can_quantize:
            return None
        if self.quantize == "auto":
            return rules.auto_quantize if backend == "native" else None
        if self.quantize == "fp8" and backend != GPU_BACKEND:
            raise UnsupportedError("fp8 weights need an NVIDIA GPU (`--device cuda`); on the CPU use int8 or q4")
        return None if self.quantize == "none" else self.quantize


@dataclass
class LoadReport:
    """Seconds of each phase of loading, and the forms of the weights."""

    seconds: dict[str, float] = field(default_factory=dict)
    backend: str = ""
    device: str = "cpu"
    forms: list[WeightForm] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @property
    def bytes_by_type(self) -> dict[str, int]:
        """Stored bytes by type."""
        sizes: dict[str, int] = {}
        for form in self.forms:
            sizes[form.type.name] = sizes.get(form.type.name, 0) + form.stored_bytes
        return sizes

    @property
    def resident_bytes(self) -> int:
        return sum(form.resident_bytes for form in self.forms)

    def weights(self) -> str:
        """Return the forms of the weights as readable text."""
        sizes: dict[tuple[str, str], list[int]] = {}
        for form in self.forms:
            stored, resident = sizes.setdefault((form.type.name, _became(form)), [0, 0])
            sizes[form.type.name, _became(form)] = [stored + form.stored_bytes, resident + form.resident_bytes]
        types = ", ".join(
            f"{name} {stored / 1e6:.0f} MB {became}" + (f" ({resident / 1e6:.0f} MB)" if resident != stored else "")
            for (name, became), (stored, resident) in sorted(sizes.items())
        )
        return f"weights {types}; {self.resident_bytes / 1e6:.0f} MB resident"

    def line(self) -> str:
        phases = ", ".join(f"{name} {seconds:.2f}s" for name, seconds in self.seconds.items())
        place = "" if self.device == "cpu" else f" on {self.device}"
        return f"{self.backend} backend{place}; {self.weights()}; {phases}"


def _became(form: WeightForm) -> str:
    if form.quantized in TORCH_DTYPES:
        return f"converted to {form.quantized.name}"
    if form.quantized is not None:
        return f"quantised to {form.quantized.name}"
    return "packed" if form.packed else "kept as stored"


class WeightTargets:
    """Type that each weight's floats become on a backend, by the model's rules; None if they stay as they are."""

    def __init__(self, rules: WeightRules, options: WeightOptions, backend: str, device_type: str) -> None:
        self.quantize = options.quantize_for(rules, backend)
        self.fast_type = rules.fast_type if options.precision == "fast" and backend == "native" else None
        self.exact = _exact_nodes(rules, backend, device_type)
        self._looked_up = {id(weight) for weight in (*rules.embeddings, *rules.heads)}
        self._batched = {id(weight) for weight in rules.batched}
        self._kept = self._looked_up | {id(weight) for node in self.exact for weight in node.weights()}

    def __call__(self, weight: Weight) -> TensorType | None:
        if self.quantize is None:
            return None if id(weight) in self._kept else self.fast_type
        if self.quantize == "int8" and id(weight) in self._batched:
            return TensorType.I8
        matrices, embeddings = QUANTIZATIONS[self.quantize]
        return embeddings if id(weight) in self._looked_up else matrices


def prepare(
    model: Model,
    report: LoadReport,
    options: WeightOptions = WeightOptions(),
    release_pages: Callable[[], None] = lambda: None,
    device: Device | None = None,
) -> None:
    """Convert the weights to the form that the device's backend computes with, by the model's rules.

    Afterwards every tensor of the model is on the device, by default the CPU. The native backend reads every stored
    type and packs most quantised ones. Other backends would decode quantised weights on every call, so they are decoded
    once, to bf16.
    """
    place = torch.device("cpu") if device is None else device.torch
    report.backend, report.device = ops.active_backend(place.type).name, str(place)
    rules = model.weight_rules()
    is_fast = options.precision == "fast"
    # A GPU gains nothing from 8 bits in models this small; its products stay exact, and convolutions are in 16 bits.
    half_convolutions = is_fast and report.backend == GPU_BACKEND and rules.fast_type is TensorType.F16
    targets = WeightTargets(rules, options, report.backend, place.type)

    compute_type = None if device is None else device.compute_type
    if place.type != "cpu":
        model.place(place)
    if compute_type not in (None, torch.float32) and model.takes_compute_type:
        for node in model.modules():
            node.set_compute_type(compute_type)
    for node in model.modules():
        if isinstance(node, Halvable):
            wanted = targets.fast_type is not None or targets.quantize is not None or half_convolutions
            node.half = wanted and node not in targets.exact
        node.prepare()
    dtype = torch.bfloat16 if compute_type is None else compute_type if model.takes_compute_type else torch.float32
    report.forms += ops.prepare_weights(list(model.weights()), options.repack, targets, release_pages, place, dtype)


def _exact_nodes(rules: WeightRules, backend: str, device_type: str) -> list[Module]:
    """Return the modules that stay in 32 bits: on a GPU, and if the CPU's 16-bit floats have an 8-bit mantissa."""
    if not rules.exact or (backend != GPU_BACKEND and ops.half_type(device_type) is not torch.bfloat16):
        return []
    return [node for module in rules.exact for node in module.modules()]
