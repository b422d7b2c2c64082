// Kernels for frames of sound, split over threads, for Python.

#pragma once

#include <cstdint>

#include "base/variant.h"
#include "sound/kernels.h"

namespace antiphon {

// Normalises x [frames, channels] to mean 0 and variance 1 in every channel, then applies scale and shift, both multiplied
// by alpha if given, and then the function.
struct AdaptiveNormCall {
    const float *x;
    std::int64_t frames, channels;
    const float *scale, *shift, *alpha;  // [channels]; alpha may be null
    double eps;
    FrameFunction function;
    float slope;
    float *out;
    std::uint16_t *half_out;
};
void run_adaptive_norm(const AdaptiveNormCall &call, int threads, const Variant &variant);

void run_depthwise(const Depthwise &depthwise, std::int64_t rows, int threads, const Variant &variant);

// Fills `share` and `before` first.
void run_pulses(const PulseTrain &train, int threads, const Variant &variant);
void run_spectra(const SpectraSum &spectra, std::int64_t frames, int threads, const Variant &variant);

// Runs `count` recurrences at once, and allocates their `state`.
void run_recurrences(Recurrence *recurrences, std::int64_t count, int threads, const Variant &variant);

}  // namespace antiphon
