// Convolution of frames, split over threads, for Python and recorded programs.

#pragma once

#include <cstdint>

#include "base/variant.h"
#include "rows/kernels.h"

namespace antiphon {

// activation(x [windows, frames, channels] convolved + bias) → out [windows, out_frames, out_channels]. `panels` are the
// weights as `Convolution` reads them: the columns of an output are its taps in order, each with all input channels.
struct ConvolutionCall {
    const float *panels;
    std::int64_t kernel, out_channels;
    const float *x;
    std::int64_t windows, frames, channels, out_frames, stride, left;
    const float *bias;
    Activation activation;
    float *out;
};

void run_convolution(const ConvolutionCall &call, int threads, const Variant &variant);

}  // namespace antiphon
