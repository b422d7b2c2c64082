"""`Section`: parts of a model, to which the instructions of its programs belong."""

from __future__ import annotations

from enum import StrEnum

from antiphon.layers.linear import Head, Linear
from antiphon.models.base.model import Model
from antiphon.ops import CacheKind
from antiphon.ops.program import instructions as program
from antiphon.ops.program.instructions import Instruction


class Section(StrEnum):
    """Parts over which costs are summed, in the order in which they are printed."""

    EMBEDDINGS = "embeddings"
    CONVOLUTIONS = "convolutions"
    PROJECTIONS = "attention projections"
    ATTENTION = "attention"  # an encoder's, without a cache
    CACHE = "attention over the cache"
    CROSS = "cross-attention over the cache"
    MLP = "MLP"
    NORMS = "norms"
    HEAD = "head"
    SAMPLING = "sampling"
    OTHER = "other"


class Sections:
    def __init__(self, model: Model) -> None:
        self._of_weight: dict[int, Section] = {}
        for node in model.modules():
            if isinstance(node, Head):
                self._of_weight[id(node.weight)] = Section.HEAD
            elif isinstance(node, Linear):
                self._of_weight[id(node.weight)] = _layer_section(node)

    def of(self, instruction: Instruction) -> Section:
        if isinstance(
            instruction, program.PagedAttentionInstruction | program.StoreInstruction | program.HeadsInstruction
        ):
            is_cross = instruction.cache.layout.group.kind is CacheKind.CROSS
            return Section.CROSS if is_cross else Section.CACHE
        if isinstance(instruction, program.LinearInstruction):
            return self._of_weight.get(id(instruction.matrix), Section.OTHER)
        return _SECTIONS.get(type(instruction), Section.OTHER)


_SECTIONS: dict[type[Instruction], Section] = {
    program.EmbedInstruction: Section.EMBEDDINGS,
    program.AddInstruction: Section.EMBEDDINGS,  # positions and types; residuals are part of products
    program.ConvolutionInstruction: Section.CONVOLUTIONS,
    program.AttentionInstruction: Section.ATTENTION,
    program.NormInstruction: Section.NORMS,
}


def _layer_section(layer: Linear) -> Section:
    """Return the section by the layer's name in the checkpoint: layers outside of attention belong to the MLP."""
    names = {word for name, _ in layer.fused for word in name.split(".")}
    return Section.PROJECTIONS if any("att" in word for word in names) else Section.MLP
