// Work on frames of sound: convolution in 16-bit floats, norms over the frames of an utterance, recurrence.

#pragma once

#include <cstdint>

#include "rows/kernels.h"

namespace antiphon {

constexpr std::int64_t kHalfPanel = 16;   // output channels of a panel
constexpr std::int64_t kHalfFrames = 192;  // at most, of one call of the kernel
constexpr std::int64_t kTileOutputs = 4;   // of Winograd's algorithm

// The 16-bit type that a set of kernels computes in. Panels of bf16 have two columns of an output side by side:
// [outputs / 16, taps, inputs / 2, 16, 2].
enum class HalfFormat : int { none, fp16, bf16 };

// Frames of 16-bit floats convolved with panels [outputs / 16, taps, inputs, 16] of them, the last panel filled up with
// zeros. What lies outside of the frames counts as zero.
//
// With `transform` t, 3 or 4, it goes by Winograd's algorithm (arXiv:1509.09308), for stride 1 and a dilation of at most
// 6: the taps are groups of t, of three there is only one, each group is t + 3 points, and panels are [outputs / 16, points, groups, inputs, 16].
struct HalfConvolution {
    const std::uint16_t *panels;
    std::int64_t taps, inputs, dilation, stride, left;
    int transform;  // 0 where there is none
    std::int64_t groups;
    const std::uint16_t *x;  // [frames, inputs]
    std::int64_t frames;
    const std::uint16_t *zeros;  // `inputs` of them

    std::int64_t points() const { return transform + kTileOutputs - 1; }
    // Frames that a call of the kernel computes at most.
    std::int64_t block() const { return transform ? (dilation < 6 ? 6 / dilation : 1) * 8 * dilation * kTileOutputs : kHalfFrames; }
    // Tiles of so many frames, whose outputs lie `dilation` apart; a multiple of 8.
    std::int64_t tiles(std::int64_t of_frames) const {
        const std::int64_t step = kTileOutputs * dilation;
        return ((of_frames + step - 1) / step * dilation + 7) / 8 * 8;
    }
    // Inputs on their way there: of `points()` points, one for each tile and for those that later groups begin with.
    std::int64_t inputs_there(std::int64_t of_frames) const { return tiles(of_frames) + (groups - 1) * dilation; }
    std::int64_t scratch_halves() const { return transform ? points() * inputs_there(block()) * inputs : 0; }
};

struct HalfKernels {
    HalfFormat format;
    std::int64_t columns;  // the number of inputs must be a multiple of it
    std::int64_t (*scratch_halves)(const HalfConvolution &);
    // What the panels of a block have in common: at most `scratch_halves` of it.
    void (*prepare)(const HalfConvolution &, std::int64_t begin, std::int64_t end, std::uint16_t *scratch);
    // totals[frame - begin][16] for the output frames [begin, end) of one block and one panel; there must be room for a
    // whole block. In fp16 sums of at most 128 products are added up in it, and these in fp32; of bf16 every product is
    // added up in fp32. A frame's place in its block and what it is computed from decide its bits, nothing else.
    void (*convolve)(const HalfConvolution &, std::int64_t panel, std::int64_t begin, std::int64_t end,
                     const std::uint16_t *scratch, float *totals);
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

// The source of a vocoder: all harmonics of a pitch below `highest` Hz, each of amplitude 1; 0 where it is under `lowest`.
// Between the middles of two frames the pitch is a mean of theirs.
struct PulseTrain {
    const float *pitch;  // [frames], in Hz
    std::int64_t frames, hop;
    double rate;
    float lowest, highest;
    const float *share;  // [hop]: of the later of the two frames that a sample lies between
    double *before;      // [frames]: the pitch of all samples before the frame, added up
    float *out;          // [frames, hop]
};

// The spectrum of a vocoder: source filtered, plus noise shaped, plus a free part. For a frame and a bin,
// source · e^level · e^(iπ tanh turn) + noise · e^noise_level + e^free_level · e^(i free_phase); levels count up to 7.
struct SpectraSum {
    const float *source;   // [frames, bins], complex as all but `spectra`
    const float *spectra;  // [frames, 5, bins]: level, turn, noise_level, free_level, free_phase
    const float *noise;    // [bins, noise_stride]
    std::int64_t noise_stride, bins;
    float *out;            // [frames, bins]
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
    float *h, *c;  // what the sequence begins with, overwritten by what it ends with; null: with zeros
    float *state;  // room for 3 * hidden
};

struct FrameKernels {
    // Blocks [begin, end).
    void (*sums)(const FrameSums &, std::int64_t begin, std::int64_t end);
    // Frames [begin, end).
    void (*norm)(const FrameNorm &, std::int64_t begin, std::int64_t end);
    void (*depthwise)(const Depthwise &, std::int64_t begin, std::int64_t end);
    void (*recur)(const Recurrence &);
    void (*begin_pulses)(const PulseTrain &);  // fills `before`
    void (*pulses)(const PulseTrain &, std::int64_t begin, std::int64_t end);
    void (*sum_spectra)(const SpectraSum &, std::int64_t begin, std::int64_t end);
};

}  // namespace antiphon
