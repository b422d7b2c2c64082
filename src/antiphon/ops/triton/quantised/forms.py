"""Quantised types that the kernels read, and the layout of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from antiphon.weights.types import TensorType

#: Elements per block.
BLOCK = 32

#: Blocks along a row, and rows, of a stored tile.
GROUP = 8
WIDTH = 8

#: Storage of a block's scale: one f16; f16 scale and minimum; 6-bit scale and minimum of a super-block; two signed
#: bytes (one for each 16 elements) of a super-block.
ScaleKind = Literal["half", "half_minimum", "six_bits", "signed"]

#: Numbers that kernels receive for the kinds of scales.
SCALE_NUMBERS: dict[ScaleKind, int] = {"half": 0, "half_minimum": 1, "six_bits": 2, "signed": 3}


@dataclass(frozen=True)
class BlockForm:
    """Layout of a type: an element is scale * (code - offset) + minimum, with codes of `low_bits` + `high_bits` bits.

    The low bits of a block's 32 codes are `low_bits` words of 32 bits, the high bits `high_bits` further words.
    """

    low_bits: int
    high_bits: int
    offset: int
    scale: ScaleKind

    @property
    def planes(self) -> int:
        """Words per block of codes."""
        return self.low_bits + self.high_bits

    @property
    def is_super(self) -> bool:
        """Whether scales are multiples of a factor that 256 elements share."""
        return self.scale in ("six_bits", "signed")

    def numbers(self) -> dict[str, int]:
        """Return the kernel constants of the form."""
        return {
            "LOW": self.low_bits, "HIGH": self.high_bits, "OFFSET": self.offset, "SCALE": SCALE_NUMBERS[self.scale],
        }  # fmt: skip


FORMS: dict[TensorType, BlockForm] = {
    TensorType.Q4_0: BlockForm(4, 0, 8, "half"),
    TensorType.Q4_1: BlockForm(4, 0, 0, "half_minimum"),
    TensorType.Q5_0: BlockForm(4, 1, 16, "half"),
    TensorType.Q5_1: BlockForm(4, 1, 0, "half_minimum"),
    TensorType.Q8_0: BlockForm(8, 0, 128, "half"),
    TensorType.Q4_K: BlockForm(4, 0, 0, "six_bits"),
    TensorType.Q5_K: BlockForm(4, 1, 0, "six_bits"),
    TensorType.Q6_K: BlockForm(4, 2, 32, "signed"),
}
