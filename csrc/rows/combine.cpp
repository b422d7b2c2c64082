// Sums, means and normalised lengths of rows. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "rows/kernels.h"

#include "base/vector.h"

namespace antiphon {
namespace ANTIPHON_VARIANT {

void add(const RowSum &sum, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
        const float *x = sum.x + row * sum.x_stride, *y = sum.y + row % sum.y_rows * sum.y_stride;
        float *out = sum.out + row * sum.width;
        for (std::int64_t i = 0; i < sum.width; ++i) out[i] = x[i] + y[i];
    }
}

// Rows are added in ascending order, so a segment's mean depends on its own rows alone.
void segment_means(const SegmentMeans &means, std::int64_t begin, std::int64_t end) {
    for (std::int64_t segment = begin; segment < end; ++segment) {
        const std::int64_t first = means.seq_start[segment], last = means.seq_start[segment + 1];
        float *out = means.out + segment * means.width;
        for (std::int64_t i = 0; i < means.width; ++i) out[i] = 0;
        for (std::int64_t row = first; row < last; ++row) {
            const float *x = means.x + row * means.x_stride;
            for (std::int64_t i = 0; i < means.width; ++i) out[i] += x[i];
        }
        const float count = float(last - first);
        for (std::int64_t i = 0; i < means.width; ++i) out[i] /= count;
    }
}

void unit_rows(const UnitRows &rows, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
        const float *x = rows.x + row * rows.x_stride;
        float *out = rows.out + row * rows.width;
        Floats squares = zeros();
        std::int64_t i = 0;
        for (; i + kLanes <= rows.width; i += kLanes) squares = multiply_add(load(x + i), load(x + i), squares);
        if (i < rows.width) {
            const Floats rest = load_part(x + i, int(rows.width - i));
            squares = multiply_add(rest, rest, squares);
        }
        const float length = __builtin_sqrtf(sum(squares)), divisor = length > 1e-12f ? length : 1e-12f;
        for (i = 0; i < rows.width; ++i) out[i] = x[i] / divisor;
    }
}

// Adds to `kTokens` tokens and two vectors of columns; `First` and `Second` give the number of elements of each vector.
template <int kTokens, class First, class Second>
ANTIPHON_INLINE void add_weighted_block(const WeightedRows &w, std::int64_t token, std::int64_t column, First first,
                                        Second second) {
    Floats left[kTokens], right[kTokens];
    const float *weights[kTokens];
    for (int t = 0; t < kTokens; ++t) {
        left[t] = right[t] = zeros();
        weights[t] = w.weights + (token + t) * w.weight_stride;
    }
    for (std::int64_t j = 0; j < w.count; ++j) {
        const float *const row = w.rows + j * w.row_stride + column;
        const Floats low = first.load(row), high = second.load(row + kLanes);
        for (int t = 0; t < kTokens; ++t) {
            const Floats weight = splat(weights[t][j]);
            left[t] = multiply_add(weight, low, left[t]);
            right[t] = multiply_add(weight, high, right[t]);
        }
    }
    for (int t = 0; t < kTokens; ++t) {
        float *const y = w.y + w.tokens[token + t] * w.y_stride + column;
        first.store(y, first.load(y) + left[t]);
        second.store(y + kLanes, second.load(y + kLanes) + right[t]);
    }
}

template <class First, class Second>
ANTIPHON_INLINE void add_weighted_columns(const WeightedRows &w, std::int64_t column, First first, Second second) {
    std::int64_t token = 0;
    for (; token + 4 <= w.num_tokens; token += 4) add_weighted_block<4>(w, token, column, first, second);
    for (; token < w.num_tokens; ++token) add_weighted_block<1>(w, token, column, first, second);
}

void add_weighted(const WeightedRows &w, std::int64_t begin, std::int64_t end) {
    std::int64_t column = begin;
    for (; column + 2 * kLanes <= end; column += 2 * kLanes) add_weighted_columns(w, column, Whole{}, Whole{});
    const int rest = int(end - column);
    if (rest >= kLanes) {
        add_weighted_columns(w, column, Whole{}, Rest{rest - kLanes});
    } else if (rest) {
        add_weighted_columns(w, column, Rest{rest}, Rest{0});
    }
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
