"""`DetectorModel`: a small model that the calls of other models use."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from antiphon.models.base.model import Model
from antiphon.models.base.parts import Detector, Part, VocabularyKind, WeightRules


class DetectorModel(Model):
    """A model whose only part is a detector. It takes no tokens, and computes in 32 bits."""

    takes_compute_type = False
    vocabulary = VocabularyKind.NONE
    vocab_size = 0
    max_positions = 0
    #: Inputs that one step takes together, by the sum of their sizes.
    step_size: ClassVar[int]

    def parts(self) -> tuple[Part, ...]:
        return (Detector(type(self).__name__, step_size=self.step_size, size=self.input_size, run=self.detect),)

    def weight_rules(self) -> WeightRules:
        return WeightRules(can_quantize=False)

    def input_size(self, given: Any) -> int:
        """The size of an input, 1 or more."""
        return 1

    @abstractmethod
    def detect(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The result of every input."""
