// Norms over rows. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "rows/kernels.h"

#include "base/vector.h"

namespace antiphon {
namespace {

const float *row_of(const RowsView &view, std::int64_t row) {
    return view.data + row / view.inner * view.outer_stride + row % view.inner * view.inner_stride;
}

// Calls visit(i, count) for every eight elements of a row and for its last elements.
template <class Visit> ANTIPHON_INLINE void for_each_vector(std::int64_t width, Visit visit) {
    std::int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) visit(i, kLanes);
    if (i < width) visit(i, int(width - i));
}
ANTIPHON_INLINE Floats load_some(const float *source, int count) {
    return count == kLanes ? load(source) : load_part(source, count);
}
ANTIPHON_INLINE void store_some(float *target, Floats value, int count) {
    if (count == kLanes) {
        store(target, value);
    } else {
        store_part(target, value, count);
    }
}

// Returns the row to normalise: x, or x + residual, which is stored in `total`.
const float *total_of(const Norm &norm, std::int64_t row) {
    const float *x = row_of(norm.x, row);
    if (!norm.residual.data) return x;
    const float *residual = row_of(norm.residual, row);
    float *total = norm.total + row * norm.width;
    for (std::int64_t i = 0; i < norm.width; ++i) total[i] = x[i] + residual[i];
    return total;
}

// Sums term(elements) over a row. The last vector is padded with zeros, for which `term` must be zero.
template <class Term> ANTIPHON_INLINE float sum_row(const float *x, std::int64_t width, Term term) {
    constexpr int chains = 4;
    Floats totals[chains] = {zeros(), zeros(), zeros(), zeros()};
    std::int64_t i = 0;
    for (; i + chains * kLanes <= width; i += chains * kLanes) {
#pragma GCC unroll 4
        for (int c = 0; c < chains; ++c) totals[c] = term(load(x + i + c * kLanes), totals[c], kLanes);
    }
    for_each_vector(width - i, [&](std::int64_t j, int count) {
        totals[0] = term(load_some(x + i + j, count), totals[0], count);
    });
    return sum((totals[0] + totals[1]) + (totals[2] + totals[3]));
}

}  // namespace

namespace ANTIPHON_VARIANT {

void rms_norm(const Norm &norm, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
        const float *x = total_of(norm, row);
        float *y = norm.y + row * norm.width;
        const float squares = sum_row(x, norm.width, [](Floats v, Floats total, int) { return multiply_add(v, v, total); });
        const Floats scale = splat(1.0f / __builtin_sqrtf(squares / float(norm.width) + norm.eps));
        for_each_vector(norm.width, [&](std::int64_t i, int count) {
            store_some(y + i, load_some(x + i, count) * scale * load_some(norm.weight + i, count), count);
        });
    }
}

void layer_norm(const Norm &norm, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
        const float *x = total_of(norm, row);
        float *y = norm.y + row * norm.width;
        const float total = sum_row(x, norm.width, [](Floats v, Floats partial, int) { return partial + v; });
        const Floats mean = splat(total / float(norm.width));
        const float squares = sum_row(x, norm.width, [&](Floats v, Floats partial, int count) {
            Floats centred = v - mean;
            if (count < kLanes) {
                float lanes[kLanes];
                store(lanes, centred);
                centred = load_part(lanes, count);
            }
            return multiply_add(centred, centred, partial);
        });
        const Floats scale = splat(1.0f / __builtin_sqrtf(squares / float(norm.width) + norm.eps));
        for_each_vector(norm.width, [&](std::int64_t i, int count) {
            const Floats value = (load_some(x + i, count) - mean) * scale * load_some(norm.weight + i, count);
            store_some(y + i, norm.bias ? value + load_some(norm.bias + i, count) : value, count);
        });
    }
}

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
