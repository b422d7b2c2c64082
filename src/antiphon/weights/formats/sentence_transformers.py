"""Files of sentence-transformers beside a checkpoint: how token states become one vector per text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.json_object import read_json, read_json_object

MODULES_NAME = "modules.json"
SUPPORTED_MODES = ("cls", "mean")

#: Pooling modes by their switch in older files; newer ones have `pooling_mode` with a name or a list of names.
SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def sentence_head(folder: Path) -> dict[str, bool] | None:
    """Return `pooling_mode_cls_token` (False: mean pooling) and `normalize`, or None for a folder without modules.

    Raise `UnsupportedError` for other modules or pooling modes.
    """
    path = folder / MODULES_NAME
    if not path.exists():
        return None
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{path}: is not a list of modules")
    mode, normalize = "mean", False
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            mode = _pooling_mode(folder, str(module.get("path", "")))
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise UnsupportedError(f"{path}: modules of type {module.get('type')!r} are not supported")
    return {"pooling_mode_cls_token": mode == "cls", "normalize": normalize}


def _pooling_mode(folder: Path, subfolder: str) -> str:
    if Path(subfolder).name != subfolder:
        raise CheckpointError(f"{folder / MODULES_NAME}: a module has the path {subfolder!r}, not a folder beside it")
    path = folder / subfolder / "config.json"
    modes = _modes(read_json_object(path))
    if len(modes) != 1 or modes[0] not in SUPPORTED_MODES:
        raise UnsupportedError(
            f"{path}: pooling by {' and '.join(modes)} is not supported; supported are {' or '.join(SUPPORTED_MODES)}"
        )
    return modes[0]


def _modes(config: Mapping[str, Any]) -> list[str]:
    named = config.get("pooling_mode")
    if named is not None:
        return [str(mode) for mode in named] if isinstance(named, list) else [str(named)]
    return [mode for switch, mode in SWITCHES.items() if config.get(switch)] or ["mean"]
