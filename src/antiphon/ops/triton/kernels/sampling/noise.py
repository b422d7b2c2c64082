"""Gumbel noise from Philox numbers, for sampling by Gumbel-max."""

from __future__ import annotations

import triton
import triton.language as tl

#: Whether Triton's interpreter runs, which has no PTX instructions.
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _log(x):
    """Return the natural logarithm by one instruction, within 2 ** -22 of log2(x); the usual one takes twenty-five."""
    if INTERPRETED:
        return tl.log(x)
    return 0.6931471805599453 * tl.inline_asm_elementwise(
        "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def gumbel(seed, index, counter):
    """Return Gumbel noise for the four tokens from 4 * counter on; the numbers are those of `reference.philox.uniform`.

    The noise is -log(-log u). The likely winners have u close to 1, where the instruction is too coarse for the inner
    logarithm: there a series in 1 - u, which is exact, replaces it.
    """
    low = (index & 0xFFFFFFFF).to(tl.uint32) + tl.zeros_like(counter)
    high = ((index >> 32) & 0xFFFFFFFF).to(tl.uint32) + tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, low, high, tl.zeros_like(counter))
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (4 * counter.shape[0],))
    u = ((words >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2 ** -23
    rest = 1.0 - u
    series = rest * (1.0 + rest * (0.5 + rest * (1 / 3 + rest * (0.25 + rest * (0.2 + rest * (1 / 6))))))
    return -_log(tl.where(rest < 0.0625, series, -_log(u)))
