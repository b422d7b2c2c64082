"""The noise of draws by Gumbel-max, from Philox numbers."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gumbel(seed, index, counter):
    """Gumbel noise for four tokens from 4 * counter each; the numbers of `reference.philox.uniform`."""
    low = (index & 0xFFFFFFFF).to(tl.uint32) + tl.zeros_like(counter)
    high = ((index >> 32) & 0xFFFFFFFF).to(tl.uint32) + tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, low, high, tl.zeros_like(counter))
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (4 * counter.shape[0],))
    uniform = ((words >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2 ** -23
    return -tl.log(-tl.log(uniform))
