"""Assignment of an adapter's matrices to the linear layers of a model."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch

from antiphon import ops
from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.layers.linear import Linear
from antiphon.models.base.model import Model
from antiphon.ops import AdapterUp, LayerAdapter
from antiphon.weights.adapters.adapter_file import AdapterFile, LowRank, check_finite
from antiphon.weights.weight import Weight


@dataclass(frozen=True)
class Target:
    """A range of rows of a linear layer under the model's own tensor name; fused layers have several."""

    name: str
    linear: Linear
    first: int
    rows: int


@dataclass(frozen=True)
class ModelAdapter:
    """An adapter that fits a model: its matrices for each of the model's linear layers."""

    layers: tuple[tuple[Linear, LayerAdapter], ...]
    nbytes: int
    digest: bytes
    rank: int  # maximum over all layers

    def on(self, device: torch.device) -> ModelAdapter:
        """Return the adapter with its matrices on a device."""
        ops.prepare_weights([layer.down for _, layer in self.layers], device=device)
        moved = tuple(
            (linear, replace(layer, ups=tuple(replace(up, rows=up.rows.to(device)) for up in layer.ups)))
            for linear, layer in self.layers
        )
        return replace(self, layers=moved)

    def attach(self, slot: int) -> None:
        """Attach the adapter to a slot in every layer, or in none if an error occurs. Call it between steps only."""
        try:
            for linear, layer in self.layers:
                linear.adapters.set(slot, layer)
        except BaseException:
            self.detach(slot)
            raise

    def detach(self, slot: int) -> None:
        for linear, _ in self.layers:
            linear.adapters.clear(slot)


def adapter_targets(model: Model) -> dict[str, Target]:
    """Return the row ranges that an adapter can change, by the model's own tensor names."""
    targets = {}
    for node in model.modules():
        if isinstance(node, Linear):
            first = 0
            for name, rows in node.fused:
                targets[name] = Target(name, node, first, rows)
                first += rows
    return targets


def fit_adapter(model: Model, model_name: str, file: AdapterFile) -> ModelAdapter:
    """Match an adapter's matrices to a model; raise an error that names the tensor if they do not fit."""
    targets = adapter_targets(model)
    names = {model.gguf_name(f"{name}.weight"): name for name in targets} if file.format == "gguf" else {}
    parts: dict[int, list[tuple[Target, LowRank]]] = {}
    for name, layer in file.layers.items():
        target = targets.get(names[name]) if name in names else _find(name, targets)
        if target is None:
            raise UnsupportedError(_unknown(name, file.path, model_name, names or targets))
        _check_shapes(layer, target, file.path, model_name)
        parts.setdefault(id(target.linear), []).append((target, layer))
    made = []
    for entries in parts.values():
        entries.sort(key=lambda entry: entry[0].first)
        twice = next((a[0].name for a, b in pairwise(entries) if a[0] is b[0]), None)
        if twice is not None:
            raise CheckpointError(f"{file.path}: {twice!r} has two pairs of matrices")
        made.append((entries[0][0].linear, _layer_adapter(entries, model, file.format == "gguf", file.path)))
    rank = max(layer.rank for layer in file.layers.values())
    return ModelAdapter(tuple(made), sum(layer.nbytes for _, layer in made), file.digest(), rank)


def _find(name: str, targets: Mapping[str, Target]) -> Target | None:
    """Find a target by its whole name, else by the only common suffix: an adapter's base may have been wrapped."""
    if name in targets:
        return targets[name]
    fitting = [target for own, target in targets.items() if name.endswith(f".{own}") or own.endswith(f".{name}")]
    return fitting[0] if len(fitting) == 1 else None


def _unknown(name: str, path: Path, model_name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    return f"{path}: the adapter changes {name!r}, which model {model_name!r} does not have{hint}"


def _check_shapes(layer: LowRank, target: Target, path: Path, model_name: str) -> None:
    expected = ((layer.rank, target.linear.weight.columns), (target.rows, layer.rank))
    for tensor, weight, shape in zip((layer.down_name, layer.up_name), (layer.down, layer.up), expected, strict=True):
        if weight.shape != shape:
            raise CheckpointError(
                f"{path}: tensor {tensor!r} has shape {list(weight.shape)}; model {model_name!r} needs {list(shape)}: "
                "the adapter is for another model"
            )


def _layer_adapter(entries: list[tuple[Target, LowRank]], model: Model, is_gguf: bool, path: Path) -> LayerAdapter:
    ups, offset = [], 0
    for target, layer in entries:
        order = model.gguf_row_order(f"{target.name}.weight") if is_gguf else None
        up = layer.up if order is None else layer.up.take_rows(order)
        values = ops.embed(torch.arange(up.rows), up, layer.scale)  # decoded, [rows, rank]
        check_finite(values, layer.up_name, path)
        check_finite(ops.embed(torch.arange(layer.rank), layer.down), layer.down_name, path)
        ups.append(AdapterUp(values.T.contiguous(), target.first, offset))
        offset += layer.rank
    return LayerAdapter(Weight.concatenate(layer.down for _, layer in entries), tuple(ups))
