// Operations that treat rows by themselves, shared out over threads: what Python and recorded programs call.

#pragma once

#include <cstdint>

#include "attention/attend.h"
#include "linear/kernels.h"

namespace antiphon {

void run_norm(bool centred, const Norm &norm, std::int64_t rows, int threads, const Variant &variant);

// `std::out_of_range` where a position does not lie within the table.
void check_positions(const std::int32_t *positions, std::int64_t tokens, std::int64_t table_rows);
void run_rotary(const Rotation &rotation, std::int64_t tokens, int threads, const Variant &variant);

void run_add(const RowSum &sum, std::int64_t rows, int threads, const Variant &variant);
void run_segment_means(const SegmentMeans &means, std::int64_t segments, int threads, const Variant &variant);
void run_unit_rows(const UnitRows &rows, std::int64_t count, int threads, const Variant &variant);

// Norm (where there are weights) and rotation of queries and keys, and the keys and values to their slots.
struct HeadsCall {
    HeadRows q, k, v;
    std::int64_t heads;
    const float *q_norm, *k_norm;  // null, or head_dim weights each
    float q_eps, k_eps;
    const std::int32_t *positions;
    const float *table;
    std::int64_t rotated;
    const Pages *pages;
    const std::int64_t *slots;
    float *q_out;  // [tokens, heads, head_dim]
};
void run_heads(const HeadsCall &call, std::int64_t tokens, int threads, const Variant &variant);

// activation(x [windows, frames, channels] convolved + bias) → out [windows, out_frames, out_channels]. `panels` are the
// weights as `Convolution` reads them, with the taps of an output one after the other, each with all input channels.
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
