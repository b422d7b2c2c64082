// Convolution in 16-bit floats, split over threads, for Python.

#pragma once

#include <cstdint>

#include "base/variant.h"
#include "half/kernels.h"
#include "rows/kernels.h"

namespace antiphon {

// activation(x convolved + bias) + residual, for every row of x [rows, frames, inputs] → out [rows, out_frames, outputs].
struct HalfConvolutionCall {
    HalfConvolution convolution;  // convolution of the first row, without `zeros`
    std::int64_t rows, out_frames, outputs;
    const float *bias, *residual;  // null, or [outputs], and of the shape of `out`
    Activation activation;
    float *out;
    std::uint16_t *half_out;  // if not null, the result goes here in 16 bits and `out` is unused
};
// The variant must have kernels for 16-bit floats.
void run_half_convolution(const HalfConvolutionCall &call, int threads, const Variant &variant);

// Rounds x to the variant's 16-bit type.
void run_rounding(const float *x, std::uint16_t *out, std::int64_t count, int threads, const Variant &variant);

}  // namespace antiphon
