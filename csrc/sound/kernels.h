// Work on frames of sound: convolution, norms over the frames of an utterance, recurrence, the parts of a vocoder.

#pragma once

#include <cstdint>

namespace antiphon {

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

// Depthwise convolution: out[t] = bias + Σ weight[tap] · x[t + tap * dilation - left].
struct Depthwise {
    const float *x;  // [frames, channels]
    std::int64_t frames, channels, taps, dilation, left;
    const float *weight;  // [taps, channels]
    const float *bias;    // null, or [channels]
    float *out;
};

// The source of a vocoder: all harmonics of a pitch below `highest` Hz, each of amplitude 1; 0 where it is under `lowest`.
// Between the centres of two frames the pitch is interpolated.
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

// out[frame] = weight · x[frame ..], for weights of [channels, columns] in panels of eight channels, each [columns, 8] and
// the last padded with zeros.
struct Convolution {
    const float *panels;
    std::int64_t columns, channels;
    const float *x;
    std::int64_t x_stride;  // from the inputs of one frame to those of the next, which may overlap
    float *out;
    std::int64_t out_stride;
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
    float *h, *c;  // initial state, overwritten by the final state; null: zeros
    float *state;  // room for 3 * hidden
};

struct FrameKernels {
    // Blocks [begin, end).
    void (*sums)(const FrameSums &, std::int64_t begin, std::int64_t end);
    // Frames [begin, end).
    void (*norm)(const FrameNorm &, std::int64_t begin, std::int64_t end);
    void (*depthwise)(const Depthwise &, std::int64_t begin, std::int64_t end);
    void (*convolve)(const Convolution &, std::int64_t begin, std::int64_t end);
    void (*recur)(const Recurrence &);
    void (*begin_pulses)(const PulseTrain &);  // fills `before`
    void (*pulses)(const PulseTrain &, std::int64_t begin, std::int64_t end);
    void (*sum_spectra)(const SpectraSum &, std::int64_t begin, std::int64_t end);
};

}  // namespace antiphon
