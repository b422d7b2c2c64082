"""Conversion of e4m3, the 8-bit float of pages, by integer instructions: for GPUs without e4m3, and the interpreter.

Scaled by 2 ** -120, a number has the same exponent bits in fp32 as in e4m3; this includes subnormal numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Largest finite number of e4m3.
LARGEST = tl.constexpr(448.0)
_DOWN = tl.constexpr(2.0**-120)
_UP = tl.constexpr(2.0**120)


@triton.jit
def from_e4m3(codes):
    """Return the fp32 numbers of e4m3 codes (uint8)."""
    wide = codes.to(tl.uint32)
    bits = ((wide & 0x80) << 24) | ((wide & 0x7F) << 20)
    return bits.to(tl.float32, bitcast=True) * _UP


@triton.jit
def to_e4m3(x):
    """Return the codes (uint8) nearest to x (fp32), ties to even; numbers beyond the largest become the largest."""
    sign = (x.to(tl.uint32, bitcast=True) >> 24) & 0x80
    bits = (tl.minimum(tl.abs(x), LARGEST) * _DOWN).to(tl.uint32, bitcast=True)
    return (sign | ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20)).to(tl.uint8)
