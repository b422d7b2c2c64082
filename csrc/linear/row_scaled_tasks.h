// Row-scaled products, split over threads: what Python calls.

#pragma once

#include <cstdint>

#include "base/variant.h"
#include "rows/kernels.h"

namespace antiphon {

// activation(x · Wᵀ + bias) + residual, for x [tokens, columns] that is quantised here → out [tokens, rows].
struct ScaledCall {
    const std::int8_t *panels;
    const float *row_scales;
    std::int64_t rows, columns;
    const float *x;
    std::int64_t x_stride, tokens;
    const float *bias, *residual;  // null, or [rows] and [tokens, rows] `residual_stride` apart
    std::int64_t residual_stride;
    Activation activation;
    float *out;
};
// The variant must have kernels for it.
void run_row_scaled(const ScaledCall &call, int threads, const Variant &variant);

// Packs the rows [rows, columns] of a weight into zeroed panels, with their scales.
void make_panels(const float *weight, std::int64_t rows, std::int64_t columns, std::int8_t *panels, float *row_scales,
                 const Variant &variant);

}  // namespace antiphon
