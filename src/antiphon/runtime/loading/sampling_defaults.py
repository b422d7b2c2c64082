"""`SamplingDefaults`: sampling settings from a model's own files, for callers who give none."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.weights.catalog.resolve import ResolvedModel
    from antiphon.weights.checkpoint import Checkpoint

logger = logging.getLogger(__name__)

GENERATION_CONFIG = "generation_config.json"
#: Settings of a model whose files have none.
STANDARD = {"temperature": 0.7, "top_p": 0.95}
#: llama.cpp's names of the settings in a GGUF, and the names of `SamplingParams`.
GGUF_KEYS = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}
#: Settings of a `generation_config.json`, which have the names of `SamplingParams`.
HF_KEYS = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
#: Settings that define how to sample: if a file has one of these, those that it omits are off.
SHAPING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
INTEGERS = ("top_k",)
#: Bits of a random seed: JSON numbers keep 53 exactly, and fewer are easier to type.
SEED_BITS = 31


@dataclass(frozen=True)
class SamplingDefaults:
    """Settings under the names of `SamplingParams` that the model's file states, and that file."""

    stated: Mapping[str, float | int] = field(default_factory=dict)
    source: str = "default"

    @property
    def settings(self) -> dict[str, Any]:
        """Stated settings, with the standard ones unless the file says how to sample."""
        return {**({} if "temperature" in self.stated else STANDARD), **self.stated}

    def params(self, **given: Any) -> SamplingParams:
        """Return sampling parameters: `given` first, then these settings. Without a seed, a random one is chosen."""
        seed = given.pop("seed", None)
        return SamplingParams(**{**self.settings, **given, "seed": random_seed() if seed is None else seed})

    def describe(self, given: Mapping[str, Any] | None = None) -> str:
        """Return the settings in force and their sources as readable text."""
        asked = {name: value for name, value in (given or {}).items() if name in SETTINGS}
        in_force = {**self.settings, **asked}
        if in_force["temperature"] == 0:  # greedy: top_k and the other cuts have no effect
            in_force = {name: value for name, value in in_force.items() if name not in SHAPING[1:]}
        groups: dict[str, list[str]] = {}
        for name, value in in_force.items():
            source = "" if name in asked else f" ({self.source if name in self.stated else 'default'})"
            groups.setdefault(source, []).append(f"{name} {value:g}")
        return ", ".join(", ".join(parts) + source for source, parts in groups.items())


#: Settings that `describe` names.
SETTINGS = (*HF_KEYS, "presence_penalty", "frequency_penalty")


def random_seed() -> int:
    return secrets.randbits(SEED_BITS)


def sampling_defaults(resolved: ResolvedModel, checkpoint: Checkpoint) -> SamplingDefaults:
    """Return the settings of a GGUF's metadata or of a `generation_config.json`, otherwise the standard ones."""
    from antiphon.weights.json_object import read_json_object

    if checkpoint.format == "gguf":
        stated = {ours: checkpoint.metadata.get(key) for key, ours in GGUF_KEYS.items()}
        return _defaults(stated, "the GGUF file")
    path = resolved.files.get(GENERATION_CONFIG)
    if path is None:
        return SamplingDefaults()
    config = read_json_object(path)
    stated = {name: config.get(name) for name in HF_KEYS}
    if config.get("do_sample") is False:
        stated = {"temperature": 0.0, "repetition_penalty": stated["repetition_penalty"]}
    return _defaults(stated, GENERATION_CONFIG)


def _defaults(stated: Mapping[str, Any], source: str) -> SamplingDefaults:
    """Check stated settings; log and ignore unusable ones, which must not keep the model from loading."""
    usable: dict[str, float | int] = {}
    for name, value in stated.items():
        if value is None:
            continue
        try:
            usable[name] = _checked(name, value)
        except InvalidRequestError as error:
            logger.warning("%s: %s; ignored", source, error)
    if any(name in usable for name in SHAPING):
        usable = {"temperature": 1.0, **usable}
    return SamplingDefaults(usable, source) if usable else SamplingDefaults()


def _checked(name: str, value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidRequestError(f"{name} is {value!r}; it must be a number")
    # A GGUF has 32-bit floats: 0.95 is read as 0.949999988.
    number = int(value) if name in INTEGERS else float(f"{value:.7g}")
    if name == "top_k":
        number = max(0, number)  # some files write -1 for "off"
    SamplingParams(**{name: number})  # type: ignore[arg-type]
    return number
