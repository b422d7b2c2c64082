"""`DetectorModel`: a small model that other models use."""

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
    #: Maximum sum of input sizes in one step.
    step_size: ClassVar[int]

    def parts(self) -> tuple[Part, ...]:
        return (Detector(type(self).__name__, step_size=self.step_size, size=self.input_size, run=self.detect),)

    def weight_rules(self) -> WeightRules:
        return WeightRules(can_quantize=False)

    def input_size(self, given: Any) -> int:
        """Return the size of an input, at least 1, in units of `step_size`."""
        return 1

    @abstractmethod
    def detect(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return a result for every input, in order."""
