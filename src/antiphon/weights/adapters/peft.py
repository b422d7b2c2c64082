"""LoRA adapters as PEFT saves them: a folder with `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.adapters.adapter_file import AdapterFile, LowRank, check_complete, low_rank
from antiphon.weights.formats.safetensors import SafetensorsFile
from antiphon.weights.json_object import read_json_object

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
PREFIX = "base_model.model."
#: Names like `layer.lora_A.weight`, optionally with the adapter's name, as in states that PEFT did not save itself.
TENSOR = re.compile(r"(?P<layer>.+)\.lora_(?P<kind>[AB])(\.[^.]+)?\.weight")

#: Settings that change what an adapter computes, with the values that keep it plain LoRA.
PLAIN: dict[str, tuple[Any, ...]] = {
    "use_dora": (False, None),
    "lora_bias": (False, None),
    "bias": ("none", None),
    "modules_to_save": (None, []),
    "layer_replication": (None, []),
    "trainable_token_indices": (None, [], {}),
    "target_parameters": (None, []),
    "alora_invocation_tokens": (None, []),
    "use_qalora": (False, None),
    "arrow_config": (None,),
}
#: Initialisations that also change the base model's weights.
CHANGES_BASE = ("pissa", "olora", "corda", "loftq")
#: Parts of tensor names, and the unsupported features that they belong to.
FEATURES = {
    "lora_magnitude_vector": "DoRA (use_dora)",
    "lora_embedding": "an adapted embedding",
    "modules_to_save": "modules_to_save",
    "trainable_tokens": "trainable_token_indices",
    ".bias": "a bias",
    "embed_tokens": "an embedding",
    "lm_head": "an output layer (lm_head)",
}
#: Maximum characters of a pattern: matching a longer one could take very long.
MAX_PATTERN = 256
MAX_REPEATS = 3


def open_peft(folder: Path) -> AdapterFile:
    """Read the adapter in a folder. Any feature beyond plain LoRA is an `UnsupportedError` that names it."""
    config_path, weights_path = folder / CONFIG_NAME, folder / WEIGHTS_NAME
    config = read_json_object(config_path)
    _check_features(config, config_path)
    if not weights_path.exists():
        pickled = " (adapter_model.bin is not read: save the adapter as safetensors)"
        hint = pickled if (folder / "adapter_model.bin").exists() else ""
        raise CheckpointError(f"{folder} has {CONFIG_NAME} but no {WEIGHTS_NAME}{hint}")
    file = SafetensorsFile(weights_path)
    downs, ups = _tensors(file)
    check_complete(downs, ups, ("lora_A", "lora_B"), weights_path)
    if not downs:
        raise CheckpointError(f"{weights_path} has no LoRA matrices")
    scales = _Scales(config, config_path)
    layers = {
        name: low_rank(file.tensors, down, ups[name], partial(scales.of, name), weights_path)
        for name, down in downs.items()
    }
    _check_targets(config, layers, config_path)
    return AdapterFile(folder, "peft", layers)


def _check_features(config: Mapping[str, Any], path: Path) -> None:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise UnsupportedError(f"{path}: peft_type {kind!r} is not supported; only 'LORA'")
    for key, plain in PLAIN.items():
        value = config.get(key)
        if not any(value == known and type(value) is type(known) for known in plain):
            raise UnsupportedError(f"{path}: an adapter with {key} = {value!r} is not supported")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(CHANGES_BASE):
        raise UnsupportedError(
            f"{path}: init_lora_weights = {start!r} changes the base model's weights too; convert the adapter to "
            "plain LoRA with PEFT (path_initial_model_for_weight_conversion)"
        )


def _tensors(file: SafetensorsFile) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of the `down` and of the `up` tensors by layer; reject any other tensor."""
    found: dict[str, dict[str, str]] = {"A": {}, "B": {}}
    for name, type_name in file.unreadable.items():
        raise UnsupportedError(f"{file.path}: tensor {name!r} has the type {type_name}, which cannot be loaded")
    for name in file.tensors:
        match = TENSOR.fullmatch(name)
        feature = next((feature for part, feature in FEATURES.items() if part in name), None)
        if feature is not None:
            raise UnsupportedError(f"{file.path}: tensor {name!r} is of {feature}, which is not supported in adapters")
        if match is None:
            raise UnsupportedError(f"{file.path}: tensor {name!r} is not part of a plain LoRA adapter")
        layer = match["layer"].removeprefix(PREFIX)
        if found[match["kind"]].setdefault(layer, name) != name:
            raise CheckpointError(f"{file.path}: {name!r} and {found[match['kind']][layer]!r} are of the same layer")
    return found["A"], found["B"]


class _Scales:
    def __init__(self, config: Mapping[str, Any], path: Path) -> None:
        self._path = path
        self._rank = _number(config.get("r", 8), "r", path)
        self._alpha = _number(config.get("lora_alpha", 8), "lora_alpha", path)
        self._is_stabilised = config.get("use_rslora") is True
        self._ranks = _patterns(config, "rank_pattern", path)
        self._alphas = _patterns(config, "alpha_pattern", path)

    def of(self, layer: str, rank: int) -> float:
        stated = next((value for pattern, value in self._ranks if pattern.match(layer)), self._rank)
        if stated != rank:
            raise CheckpointError(f"{self._path}: {layer!r} has rank {rank} in the file, {stated:g} in the settings")
        alpha = next((value for pattern, value in self._alphas if pattern.match(layer)), self._alpha)
        return alpha / (math.sqrt(rank) if self._is_stabilised else rank)


def _number(value: Any, key: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise CheckpointError(f"{path}: {key} is {value!r}, not a number above 0")
    return float(value)


def _patterns(config: Mapping[str, Any], key: str, path: Path) -> list[tuple[re.Pattern[str], float]]:
    """Return a setting's values by compiled pattern: its keys are regular expressions for the ends of layer names."""
    stated = config.get(key) or {}
    if not isinstance(stated, dict):
        raise CheckpointError(f"{path}: {key} is a {type(stated).__name__}, not an object")
    found = []
    for pattern, value in stated.items():
        repeats = len(re.findall(r"[*+{?]", pattern))
        if len(pattern) > MAX_PATTERN or repeats > MAX_REPEATS or re.search(r"\)[*+{?]", pattern):
            raise UnsupportedError(f"{path}: the pattern {pattern[:80]!r} of {key} is too complex")
        try:
            compiled = re.compile(rf"(.*\.)?({pattern})$")
        except (re.error, RecursionError, OverflowError) as error:
            raise CheckpointError(f"{path}: the pattern {pattern[:80]!r} of {key} is not valid: {error}") from error
        found.append((compiled, _number(value, f"{key}[{pattern[:80]!r}]", path)))
    return found


def _check_targets(config: Mapping[str, Any], layers: Mapping[str, LowRank], path: Path) -> None:
    """Reject a file that has no matrices for a module listed in the settings."""
    targets = config.get("target_modules")
    if not isinstance(targets, list):
        return  # a pattern, or "all-linear"
    for target in targets:
        if not isinstance(target, str):
            raise CheckpointError(f"{path}: target_modules has {target!r}, not the name of a module")
        if not any(name == target or name.endswith(f".{target}") for name in layers):
            raise CheckpointError(f"{path}: target_modules names {target!r}, and the file has no matrices for it")
