"""The noise of draws by Gumbel-max, from Philox numbers."""

from __future__ import annotations

import triton
import triton.language as tl

#: The interpreter knows no instructions of a card.
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _log(x):
    """The natural logarithm by one instruction, within 2 ** -22 of log2(x); the usual one takes twenty-five."""
    if INTERPRETED:
        return tl.log(x)
    return 0.6931471805599453 * tl.inline_asm_elementwise(
        "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def gumbel(seed, index, counter):
    """Gumbel noise for four tokens from 4 * counter each; the numbers of `reference.philox.uniform`.

    It is -log(-log u). The likely winners have u close to 1, where the instruction is too coarse for the inner one:
    there it is a series in 1 - u, which is exact.
    """
    low = (index & 0xFFFFFFFF).to(tl.uint32) + tl.zeros_like(counter)
    high = ((index >> 32) & 0xFFFFFFFF).to(tl.uint32) + tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, low, high, tl.zeros_like(counter))
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (4 * counter.shape[0],))
    u = ((words >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2 ** -23
    rest = 1.0 - u
    series = rest * (1.0 + rest * (0.5 + rest * (1 / 3 + rest * (0.25 + rest * (0.2 + rest * (1 / 6))))))
    return -_log(tl.where(rest < 0.0625, series, -_log(u)))
