"""`Module`: a node of a model's tree. It is built from a checkpoint, so it never exists without its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from antiphon.ops import LSTMWeights, RotaryTable
from antiphon.weights.weight import Weight


class Module:
    """A node of a tree, whose attributes that are modules, weights, tensors, or lists of these are its children."""

    def leaves(self) -> Iterator[Weight | Tensor]:
        """Yield every weight and tensor below this node; shared ones once."""
        seen: set[int] = set()
        for leaf in _leaves(self):
            if id(leaf) not in seen:
                seen.add(id(leaf))
                yield leaf

    def modules(self) -> Iterator[Module]:
        """Yield this node and every node below it."""
        yield self
        for child in vars(self).values():
            for node in child if isinstance(child, list | tuple) else [child]:
                if isinstance(node, Module):
                    yield from node.modules()

    def weights(self) -> Iterator[Weight]:
        return (leaf for leaf in self.leaves() if isinstance(leaf, Weight))

    def place(self, device: torch.device) -> None:
        """Move every tensor below this node to a device, except weights, which `ops.prepare_weights` moves."""
        _place(self, device, {})

    def set_compute_type(self, dtype: torch.dtype | None) -> None:
        """Set the type of this node's results to the type of products on the device; None: the type of its input."""

    def prepare(self) -> None:
        """Convert this node's own tensors to the form that kernels read, now instead of on first use."""


class Halvable(Module):
    """A module that computes in 16-bit floats if `half` is set and the backend has kernels for it."""

    half = False


def _leaves(value: object) -> Iterator[Weight | Tensor]:
    if isinstance(value, Weight | Tensor):
        yield value
    elif isinstance(value, Module):
        for child in vars(value).values():
            yield from _leaves(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _leaves(child)


#: Types of values that are tensors or may contain tensors.
_HOLDERS = (Tensor, Module, list, tuple, dict, RotaryTable, LSTMWeights)


def _place(value: Any, device: torch.device, placed: dict[int, tuple[object, object]]) -> Any:
    """Return the value with its tensors on the device; modules, lists and dictionaries are changed in place.

    `placed` maps values already seen to their results, so that shared values stay shared.
    """
    if not isinstance(value, _HOLDERS):
        return value
    known = placed.get(id(value))
    if known is not None:
        return known[1]
    made: Any = value
    placed[id(value)] = (value, made)
    if isinstance(value, Tensor):
        made = value.to(device)
    elif isinstance(value, Module):
        for name, child in vars(value).items():
            setattr(value, name, _place(child, device, placed))
    elif isinstance(value, dict):
        for name, child in value.items():
            value[name] = _place(child, device, placed)
    elif isinstance(value, list):
        value[:] = [_place(child, device, placed) for child in value]
    elif type(value) is tuple:
        made = tuple(_place(child, device, placed) for child in value)
    elif isinstance(value, RotaryTable | LSTMWeights):
        made = replace(value, **{f.name: _place(getattr(value, f.name), device, placed) for f in fields(value)})
    placed[id(value)] = (value, made)
    return made
