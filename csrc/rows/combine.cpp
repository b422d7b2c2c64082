// Sums, means and lengths of rows. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

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

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
