// Rotary embedding. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "rows/kernels.h"

#include "base/vector.h"

namespace antiphon {
namespace {

// `out` may be `x` itself.
void rotate_head(const float *x, const float *cosines, const float *sines, std::int64_t half, std::int64_t head_dim,
                 float *out) {
    std::int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
        const Floats first = load(x + i), second = load(x + half + i), c = load(cosines + i), s = load(sines + i);
        store(out + i, first * c - second * s);
        store(out + half + i, second * c + first * s);
    }
    for (; i < half; ++i) {
        const float first = x[i], second = x[half + i];
        out[i] = first * cosines[i] - second * sines[i];
        out[half + i] = second * cosines[i] + first * sines[i];
    }
    for (i = 2 * half; i < head_dim; ++i) out[i] = x[i];
}

}  // namespace

namespace ANTIPHON_VARIANT {

void rotate(const Rotation &r, std::int64_t begin, std::int64_t end) {
    const std::int64_t half = r.rotated / 2;
    for (std::int64_t t = begin; t < end; ++t) {
        const float *row = r.table + r.positions[t] * r.rotated;
        for (const Rotation::Heads &side : r.sides) {
            for (std::int64_t head = 0; head < side.heads; ++head) {
                rotate_head(side.data + t * side.token_stride + head * side.head_stride, row, row + half, half, r.head_dim,
                            side.out + (t * side.heads + head) * r.head_dim);
            }
        }
    }
}

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
