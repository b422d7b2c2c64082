// Spectra of a vocoder from what its network tells. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "frames.h"

#include "functions.h"

namespace antiphon {
namespace {

struct Turn {
    Floats cosine, sine;
};

ANTIPHON_INLINE Turn turn(Floats x) {
    const auto signed_by = [](Lanes value, Lanes multiple) -> Lanes {
        return (Lanes)((LaneInts)value ^ ((LaneInts)multiple << 31));
    };
    const auto sine = [&](Lanes a) __attribute__((always_inline)) -> Lanes {
        const Angle angle = reduced(a);
        return signed_by(near_sine(angle.rest), angle.multiple);
    };
    const auto cosine = [&](Lanes a) __attribute__((always_inline)) -> Lanes {
        const Angle angle = reduced(a);
        return signed_by(near_cosine(angle.rest), angle.multiple);
    };
    return {map(cosine, x), map(sine, x)};
}

// e^level, for levels up to 7.
ANTIPHON_INLINE Floats magnitude(Floats level) {
    return exponential(map([](Lanes a) -> Lanes { return a > 7.0f ? splat_lanes(7.0f) : a; }, level));
}

ANTIPHON_INLINE void sum_bins(const SpectraSum &s, std::int64_t frame, std::int64_t bin, int count) {
    constexpr float pi = 3.14159265f;
    const auto of_kind = [&](int kind) __attribute__((always_inline)) {
        return load_part(s.spectra + (frame * 5 + kind) * s.bins + bin, count);
    };
    float source[2][kLanes] = {}, noise[2][kLanes] = {};
    const float *const pulses = s.source + (frame * s.bins + bin) * 2;
    for (int i = 0; i < count; ++i) {
        for (int part = 0; part < 2; ++part) {
            source[part][i] = pulses[2 * i + part];
            noise[part][i] = s.noise[((bin + i) * s.noise_stride + frame) * 2 + part];
        }
    }
    const Floats level = magnitude(of_kind(0)), noise_level = magnitude(of_kind(2)), free_level = magnitude(of_kind(3));
    const Turn filter = turn(hyperbolic_tangent(of_kind(1)) * splat(pi)), free = turn(of_kind(4));
    const Floats re = load(source[0]), im = load(source[1]);
    const Floats along = re * filter.cosine - im * filter.sine, across = re * filter.sine + im * filter.cosine;
    float out[2][kLanes];
    store(out[0], multiply_add(along, level, multiply_add(load(noise[0]), noise_level, free_level * free.cosine)));
    store(out[1], multiply_add(across, level, multiply_add(load(noise[1]), noise_level, free_level * free.sine)));
    float *const target = s.out + (frame * s.bins + bin) * 2;
    for (int i = 0; i < count; ++i) {
        target[2 * i] = out[0][i];
        target[2 * i + 1] = out[1][i];
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void sum_spectra(const SpectraSum &s, std::int64_t begin, std::int64_t end) {
    for (std::int64_t frame = begin; frame < end; ++frame) {
        std::int64_t bin = 0;
        for (; bin + kLanes <= s.bins; bin += kLanes) sum_bins(s, frame, bin, kLanes);
        if (bin < s.bins) sum_bins(s, frame, bin, int(s.bins - bin));
    }
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
