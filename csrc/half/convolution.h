// Convolution in 16-bit floats, split over threads: what Python calls.

#pragma once

#include <cstdint>

#include "base/variant.h"
#include "half/kernels.h"
#include "rows/kernels.h"

namespace antiphon {

// activation(x convolved + bias) + residual, for every row of x [rows, frames, inputs] → out [rows, out_frames, outputs].
struct HalfConvolutionCall {
    HalfConvolution convolution;  // of the first row, without its zeros
    std::int64_t rows, out_frames, outputs;
    const float *bias, *residual;  // null, or [outputs] and as out
    Activation activation;
    float *out;
    std::uint16_t *half_out;  // if not null, the result goes here in 16 bits and `out` is unused
};
// The variant must have kernels for it.
void run_half_convolution(const HalfConvolutionCall &call, int threads, const Variant &variant);

// x rounded to the 16-bit type.
void run_rounding(const float *x, std::uint16_t *out, std::int64_t count, int threads, const Variant &variant);

}  // namespace antiphon
