"""Activations that a kernel writes packed for products of one row with block-quantised weights."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.program import instructions as program
from antiphon.ops.program.traced import Value
from antiphon.ops.triton.program.builder import StepBuilder
from antiphon.ops.triton.quantised.activations import packed_words
from antiphon.ops.triton.quantised.forms import BLOCK, GROUP
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix


def leave_packed(step: StepBuilder, value: Value, columns: int) -> Tensor | None:
    """Return the tensor for a value's packed form, or None if anything but products of one packed row reads the value.

    Attention packs its result. A product does not: it would have to compute 32 columns in each program, which takes
    longer than the kernel that packs its result.
    """
    if step.rows != 1 or columns % (BLOCK * GROUP):
        return None
    products = step.readers.products_of(value)
    if not products or not all(_takes_packed(step, product) for product in products):
        return None
    words = step.hold(step.workspace.take((packed_words(columns),), torch.int32), value)
    step.packed[id(step.readers.origin(value))] = words
    return words


def _takes_packed(step: StepBuilder, product: program.LinearInstruction) -> bool:
    return not product.x.offset and isinstance(step.matrix(product.matrix), QuantisedMatrix)
