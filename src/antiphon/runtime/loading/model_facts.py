"""`ModelFacts`: figures of a model from the headers of its checkpoint."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.weights.checkpoint import Checkpoint


@dataclass(frozen=True)
class ModelFacts:
    """Figures of a model. `tensor_type` is the type in which most of the weights are stored."""

    architecture: str = ""
    format: str = ""
    num_parameters: int = 0
    tensor_type: str = ""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> ModelFacts:
        """Read the figures from the headers; no weight is read."""
        sizes: Counter[str] = Counter()
        for tensor in checkpoint.tensors().values():
            sizes[tensor.type.name] += math.prod(tensor.shape)
        common = sizes.most_common(1)
        return cls(checkpoint.architecture, checkpoint.format, sizes.total(), common[0][0] if common else "")
