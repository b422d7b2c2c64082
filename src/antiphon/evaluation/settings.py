"""Short names of engine settings, as in `--compare kv=int8` and `--sweep kv=fp16,int8 repack=on,off`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.subject import IN_FLIGHT, Subject
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import PAGE_TYPES
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.weight_forms import QUANTIZATIONS

SWITCH = {"on": True, "off": False}
#: Maximum settings of a sweep: more would not fit a table, and take too long.
MAX_SETTINGS = 32


@dataclass(frozen=True)
class Key:
    """Setting with its possible values, and the fields of `EngineConfig` that each value sets.

    A setting that changes the weights requires reloading the model.
    """

    summary: str
    values: Mapping[str, Mapping[str, Any]]
    changes_weights: bool = False


#: Settings by name. A new setting is one line here.
KEYS: dict[str, Key] = {
    "kv": Key(
        "data type of the KV cache", {name: {"key_type": name, "value_type": name} for name in PAGE_TYPES}
    ),
    "repack": Key(
        "quantised weights laid out for this processor",
        {name: {"repack": is_on} for name, is_on in SWITCH.items()},
        True,
    ),
    "quantize": Key(
        "type that float weights are quantised to",
        {name: {"quantize": None if name == "none" else name} for name in ("none", *QUANTIZATIONS)},
        True,
    ),
    "record": Key("steps as one compiled program", {name: {"record": is_on} for name, is_on in SWITCH.items()}),
    "invariant": Key(
        "batch-invariant arithmetic", {name: {"batch_invariant": is_on} for name, is_on in SWITCH.items()}
    ),
    "speculate": Key(
        "where drafts of answers come from",
        {mode.value: {"speculate": mode.value} for mode in (Speculation.OFF, Speculation.NGRAM)},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class EngineSetting:
    """Values by key; a missing key has the engine's default."""

    values: Mapping[str, str]

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.values.items()) or "default"

    def changed(self, values: Mapping[str, str]) -> EngineSetting:
        return replace(self, values={**self.values, **values})

    def config(self) -> dict[str, Any]:
        """Return the fields of `EngineConfig` that the setting changes."""
        return {name: given for key, value in self.values.items() for name, given in KEYS[key].values[value].items()}

    def weights(self) -> tuple[tuple[str, str], ...]:
        """Return the values that change the weights. Settings with equal values can share a loaded model."""
        return tuple(sorted((key, value) for key, value in self.values.items() if KEYS[key].changes_weights))


def parse_values(text: str) -> tuple[str, list[str]]:
    """Parse `kv=fp16,int8` into the key and its values; reject unknown ones."""
    key, equals, rest = text.partition("=")
    if not equals or not rest:
        raise InvalidRequestError(f"{text!r} is not a setting; write KEY=VALUE, with a key of: {', '.join(KEYS)}")
    if key not in KEYS:
        raise InvalidRequestError(f"there is no setting {key!r}; there are: {', '.join(KEYS)}")
    values = rest.split(",")
    for value in values:
        if value not in KEYS[key].values:
            raise InvalidRequestError(f"{key} is {value!r}; it must be one of: {', '.join(KEYS[key].values)}")
    if len(set(values)) < len(values):
        raise InvalidRequestError(f"{text!r} has a value twice")
    return key, values


def parse_setting(parts: Sequence[str]) -> dict[str, str]:
    """Parse parts such as `kv=int8` into one value per key."""
    found = {}
    for part in parts:
        key, values = parse_values(part)
        if len(values) > 1:
            raise InvalidRequestError(f"{part!r} has {len(values)} values; a setting has one for each key")
        found[key] = values[0]
    return found


def cross_product(base: EngineSetting, parts: Sequence[str]) -> list[EngineSetting]:
    """Return every combination of the given values in order; the first has the first value of each key."""
    keys: dict[str, list[str]] = {}
    for part in parts:
        key, values = parse_values(part)
        if key in keys:
            raise InvalidRequestError(f"--sweep has {key!r} twice; give its values together, as in {key}={values[0]},…")
        keys[key] = values
    count = 1
    for values in keys.values():
        count *= len(values)
    if count > MAX_SETTINGS:
        sizes = " × ".join(str(len(values)) for values in keys.values())
        raise InvalidRequestError(f"--sweep has {sizes} = {count} settings; at most {MAX_SETTINGS} are measured")
    return [base.changed(dict(zip(keys, values, strict=True))) for values in product(*keys.values())]


@contextmanager
def opened(loaded: LoadedModel, setting: EngineSetting, **options: Any) -> Iterator[Subject]:
    """Open an engine with this setting for a loaded model, and close it at the end."""
    settings = {"max_waiting": max(1024, 2 * IN_FLIGHT), **setting.config(), **options}
    with Engine(loaded, device=loaded.device.name, **settings) as engine:
        yield Subject(engine, loaded)
