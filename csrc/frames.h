// Work on frames of sound: convolution in 16-bit floats, norms over the frames of an utterance, recurrence.

#pragma once

#include <cstdint>

#include "rows.h"

namespace antiphon {

constexpr std::int64_t kHalfPanel = 16;   // output channels of a panel
constexpr std::int64_t kHalfColumns = 8;  // input channels are a multiple of it
constexpr std::int64_t kHalfFrames = 128;  // at most, of one call of the kernel

// Frames of 16-bit floats convolved with panels [outputs / 16, taps, inputs, 16] of them, the last panel filled up with
// zeros. What lies outside of the frames counts as zero.
struct HalfConvolution {
    const std::uint16_t *panels;
    std::int64_t taps, inputs, dilation, stride, left;
    const std::uint16_t *x;  // [frames, inputs]
    std::int64_t frames;
    const std::uint16_t *zeros;  // `inputs` of them
};

struct HalfKernels {
    // totals[frame - begin][16] for the output frames [begin, end), at most kHalfFrames, of one panel. `totals` has room
    // for kHalfFrames of them. A sum is added up in the 16-bit type over at most 128 columns of one tap, then in fp32;
    // it depends on nothing else.
    void (*convolve)(const HalfConvolution &, std::int64_t panel, std::int64_t begin, std::int64_t end, float *totals);
    void (*round)(const float *x, std::uint16_t *out, std::int64_t count);
};

// Sums of x - origin and of its square over some frames, for every channel.
struct FrameSums {
    const float *x;
    std::int64_t channels;
    const float *origin;  // [channels]
    float *sums, *squares;  // [blocks, channels]: of each block of kSumFrames frames
    std::int64_t frames;
};
constexpr std::int64_t kSumFrames = 128;

enum class FrameFunction : int { none, leaky, snake };

// y = function((x - mean) * gain + offset); `snake` is y + sin(y)².
struct FrameNorm {
    const float *x;
    std::int64_t channels;
    const float *mean, *gain, *offset;  // [channels]
    FrameFunction function;
    float slope;
    float *out;  // as x
    std::uint16_t *half_out;  // where it is wanted in 16 bits, with `round`
    void (*round)(const float *x, std::uint16_t *out, std::int64_t count);
};

// Each channel convolved by itself: out[t] = bias + Σ weight[tap] · x[t + tap * dilation - left].
struct Depthwise {
    const float *x;  // [frames, channels]
    std::int64_t frames, channels, taps, dilation, left;
    const float *weight;  // [taps, channels]
    const float *bias;    // null, or [channels]
    float *out;
};

// One direction of an LSTM over one sequence.
struct Recurrence {
    const float *panels;  // [hidden / 8, hidden, 4 gates, 8]
    std::int64_t hidden, steps;  // hidden is a multiple of 8
    const float *inputs;  // [steps, inputs_stride], the gates' sums without the recurrent part: input, forget, cell, output
    std::int64_t inputs_stride;
    float *out;
    std::int64_t out_stride;
    bool backward;
    float *state;  // room for 3 * hidden
};

struct FrameKernels {
    // Blocks [begin, end).
    void (*sums)(const FrameSums &, std::int64_t begin, std::int64_t end);
    // Frames [begin, end).
    void (*norm)(const FrameNorm &, std::int64_t begin, std::int64_t end);
    void (*depthwise)(const Depthwise &, std::int64_t begin, std::int64_t end);
    void (*recur)(const Recurrence &);
};

}  // namespace antiphon
