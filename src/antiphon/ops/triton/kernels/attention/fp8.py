"""e4m3, the 8-bit float of pages, in integer instructions: for cards that have none for it, and the interpreter.

Scaled by 2 ** -120, a number has the exponent in fp32 that it has in e4m3, subnormal numbers included.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: The largest number.
LARGEST = tl.constexpr(448.0)
_DOWN = tl.constexpr(2.0**-120)
_UP = tl.constexpr(2.0**120)


@triton.jit
def from_e4m3(codes):
    """The numbers of codes (uint8), in fp32."""
    wide = codes.to(tl.uint32)
    bits = ((wide & 0x80) << 24) | ((wide & 0x7F) << 20)
    return bits.to(tl.float32, bitcast=True) * _UP


@triton.jit
def to_e4m3(x):
    """The codes (uint8) of the numbers nearest to x (fp32), ties to even; larger ones become the largest."""
    sign = (x.to(tl.uint32, bitcast=True) >> 24) & 0x80
    bits = (tl.minimum(tl.abs(x), LARGEST) * _DOWN).to(tl.uint32, bitcast=True)
    return (sign | ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20)).to(tl.uint8)
