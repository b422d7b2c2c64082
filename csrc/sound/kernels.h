// Kernels for frames of sound: convolution, norms over the frames of an utterance, recurrence, the parts of a vocoder.

#pragma once

#include <cstdint>

namespace antiphon {

// Sums of x - origin and of its square over blocks of frames, for every channel.
struct FrameSums {
    const float *x;
    std::int64_t channels;
    const float *origin;  // [channels]
    float *sums, *squares;  // [blocks, channels]; a block has kSumFrames frames
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
    float *out;  // [frames, channels]
    std::uint16_t *half_out;  // if not null, the result goes here in 16 bits, converted by `round`
    void (*round)(const float *x, std::uint16_t *out, std::int64_t count);
};

// Depthwise convolution: out[t] = bias + Σ weight[tap] · x[t + tap * dilation - left].
struct Depthwise {
    const float *x;  // [frames, channels]
    std::int64_t frames, channels, taps, dilation, left;
    const float *weight;  // [taps, channels]
    const float *bias;    // null, or [channels]
    float *out;
};

// Source of a vocoder: the harmonics up to `highest` Hz of a pitch, each of amplitude 1; 0 where the pitch is at most
// `lowest`. The pitch is interpolated between the centres of frames.
struct PulseTrain {
    const float *pitch;  // [frames], in Hz
    std::int64_t frames, hop;
    double rate;
    float lowest, highest;
    const float *share;  // [hop]: weight of the later of the two frames that a sample lies between
    double *before;      // [frames]: sum of the pitch of all samples before the frame
    float *out;          // [frames, hop]
};

// Spectrum of a vocoder: filtered source, shaped noise and a free part, summed. For a frame and a bin,
// source · e^level · e^(iπ tanh turn) + noise · e^noise_level + e^free_level · e^(i free_phase); levels are at most 7.
struct SpectraSum {
    const float *source;   // [frames, bins], complex like all arrays but `spectra`
    const float *spectra;  // [frames, 5, bins]: level, turn, noise_level, free_level, free_phase
    const float *noise;    // [bins, noise_stride]
    std::int64_t noise_stride, bins;
    float *out;            // [frames, bins]
};

// out[frame] = weight · x[frame ..], for weights of [channels, columns] in panels of eight channels, each [columns, 8]; the
// last panel is padded with zeros.
struct Convolution {
    const float *panels;
    std::int64_t columns, channels;
    const float *x;
    std::int64_t x_stride;  // from one frame's inputs to the next frame's, which may overlap
    float *out;
    std::int64_t out_stride;
};

// One direction of an LSTM layer over one sequence.
struct Recurrence {
    const float *panels;  // [hidden / 8, hidden, 4 gates, 8]
    std::int64_t hidden, steps;  // hidden is a multiple of 8
    const float *inputs;  // [steps, inputs_stride]: gates without their recurrent part: input, forget, cell, output
    std::int64_t inputs_stride;
    float *out;
    std::int64_t out_stride;
    bool backward;
    float *h, *c;  // initial state, overwritten by the final state; null: zeros
    float *state;  // scratch of 3 * hidden
};

struct FrameKernels {
    // Computes blocks [begin, end).
    void (*sums)(const FrameSums &, std::int64_t begin, std::int64_t end);
    // These compute frames [begin, end).
    void (*norm)(const FrameNorm &, std::int64_t begin, std::int64_t end);
    void (*depthwise)(const Depthwise &, std::int64_t begin, std::int64_t end);
    void (*convolve)(const Convolution &, std::int64_t begin, std::int64_t end);
    void (*recur)(const Recurrence &);
    void (*begin_pulses)(const PulseTrain &);  // fills `before`
    void (*pulses)(const PulseTrain &, std::int64_t begin, std::int64_t end);
    void (*sum_spectra)(const SpectraSum &, std::int64_t begin, std::int64_t end);
};

}  // namespace antiphon
