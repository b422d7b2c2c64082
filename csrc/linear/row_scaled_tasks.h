// Row-scaled products, split over threads, for Python.

#pragma once

#include <cstdint>

#include "base/variant.h"
#include "rows/kernels.h"

namespace antiphon {

// activation(x · Wᵀ + bias) + residual → out [tokens, rows], where the call quantises x [tokens, columns].
struct ScaledCall {
    const std::int8_t *panels;
    const float *row_scales;
    std::int64_t rows, columns;
    const float *x;
    std::int64_t x_stride, tokens;
    const float *bias, *residual;  // null, or [rows], and [tokens, rows] with tokens `residual_stride` apart
    std::int64_t residual_stride;
    Activation activation;
    float *out;
};
// The variant must have kernels for row-scaled products.
void run_row_scaled(const ScaledCall &call, int threads, const Variant &variant);

// Quantises and packs a weight [rows, columns] into zeroed panels, and writes its scales.
void make_panels(const float *weight, std::int64_t rows, std::int64_t columns, std::int8_t *panels, float *row_scales,
                 const Variant &variant);

}  // namespace antiphon
