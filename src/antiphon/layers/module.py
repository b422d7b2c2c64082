"""`Module`: a node of a model's tree. It is built from a checkpoint, so it never exists without its weights."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from antiphon.weights.weight import Weight


class Module:
    """Attributes that are modules, weights, tensors, or lists of these, form the tree."""

    def leaves(self) -> Iterator[Weight | Tensor]:
        """Every distinct weight and tensor below this node, shared ones once."""
        seen: set[int] = set()
        for leaf in _leaves(self):
            if id(leaf) not in seen:
                seen.add(id(leaf))
                yield leaf

    def modules(self) -> Iterator[Module]:
        """This node and every one below it."""
        yield self
        for child in vars(self).values():
            for node in child if isinstance(child, list | tuple) else [child]:
                if isinstance(node, Module):
                    yield from node.modules()

    def weights(self) -> Iterator[Weight]:
        return (leaf for leaf in self.leaves() if isinstance(leaf, Weight))

    def prepare(self) -> None:
        """Convert this node's own tensors to the form that kernels read, now instead of on first use."""


class Halvable(Module):
    """A module that can compute in 16-bit floats where `half` is set and the backend has kernels for it."""

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
