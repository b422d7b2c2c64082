// Vocoder of pulses and noise: its source, and spectra from the outputs of its network. Compiled once per instruction set,
// with ANTIPHON_VARIANT naming the set.

#include "sound/kernels.h"

#include "base/functions.h"

namespace antiphon {
namespace {

ANTIPHON_INLINE Lanes signed_by(Lanes value, Lanes multiple) {
    return (Lanes)((LaneInts)value ^ ((LaneInts)multiple << 31));
}
ANTIPHON_INLINE Lanes sine(Lanes x) {
    const Angle angle = reduced(x);
    return signed_by(near_sine(angle.rest), angle.multiple);
}
ANTIPHON_INLINE Lanes cosine(Lanes x) {
    const Angle angle = reduced(x);
    return signed_by(near_cosine(angle.rest), angle.multiple);
}

// Pitch of a sample in Hz, interpolated between frames.
ANTIPHON_INLINE float frequency(const PulseTrain &p, std::int64_t frame, std::int64_t sample) {
    const std::int64_t from = sample < p.hop / 2 ? frame - 1 : frame;
    const float start = p.pitch[from < 0 ? 0 : from], stop = p.pitch[from + 1 < p.frames ? from + 1 : from];
    const float share = p.share[sample], rise = stop - start;
    return share < 0.5f ? start + share * rise : stop - (1.0f - share) * rise;
}

// Σ cos(h · angle) for h up to the highest harmonic, in closed form, or its limit where the denominator vanishes.
ANTIPHON_INLINE Lanes harmonics(Lanes frequency, Lanes angle, Lanes lowest, Lanes highest) {
    const Lanes voiced = frequency > lowest ? frequency : lowest;
    const Lanes order = __builtin_convertvector(__builtin_convertvector(highest / voiced, LaneInts), Lanes) + 0.5f;
    const Lanes denominator = 2.0f * sine(angle * 0.5f);
    const Lanes sum = absolute(denominator) <= 2e-3f ? order : sine(order * angle) / denominator;
    return frequency > lowest ? sum - 0.5f : Lanes{};
}

struct Turn {
    Floats cosine, sine;
};

ANTIPHON_INLINE Turn turn(Floats x) {
    return {map([](Lanes a) -> Lanes { return cosine(a); }, x), map([](Lanes a) -> Lanes { return sine(a); }, x)};
}

// e^level; larger levels count as 7.
ANTIPHON_INLINE Floats magnitude(Floats level) {
    return map([](Lanes a) -> Lanes { return exp_within(clamped(a, kLowestPower, 7.0f)); }, level);
}
// π · tanh(x), to 1e-6 of a turn.
ANTIPHON_INLINE Floats half_turn(Floats x) {
    return map([](Lanes a) -> Lanes {
        return 3.14159265f - 6.28318531f / (exp_within(clamped(a + a, -40.0f, 40.0f)) + 1.0f);
    }, x);
}

ANTIPHON_INLINE void sum_bins(const SpectraSum &s, std::int64_t frame, std::int64_t bin, int count) {
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
    const Turn filter = turn(half_turn(of_kind(1))), free = turn(of_kind(4));
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

void begin_pulses(const PulseTrain &p) {
    double sum = 0;
    for (std::int64_t frame = 0; frame < p.frames; ++frame) {
        p.before[frame] = sum;
        for (std::int64_t i = 0; i < p.hop; ++i) {
            const float own = frequency(p, frame, i);
            sum += own > p.lowest ? own : p.lowest;
        }
    }
}

void pulses(const PulseTrain &p, std::int64_t begin, std::int64_t end) {
    const double turns_per = 1.0 / p.rate;
    const Lanes lowest = splat_lanes(p.lowest), highest = splat_lanes(p.highest);
    for (std::int64_t frame = begin; frame < end; ++frame) {
        double sum = p.before[frame];
        for (std::int64_t i = 0; i < p.hop; i += kLanes) {
            const int count = p.hop - i < kLanes ? int(p.hop - i) : kLanes;
            float pitch[kLanes] = {}, angle[kLanes] = {};
            for (int k = 0; k < count; ++k) {
                pitch[k] = frequency(p, frame, i + k);
                sum += pitch[k] > p.lowest ? pitch[k] : p.lowest;
                const double turns = sum * turns_per;
                angle[k] = float((turns - double(std::int64_t(turns))) * 6.283185307179586);
            }
            const Floats train = map([&](Lanes f, Lanes a) __attribute__((always_inline)) -> Lanes {
                return harmonics(f, a, lowest, highest);
            }, load(pitch), load(angle));
            store_part(p.out + frame * p.hop + i, train, count);
        }
    }
}

void sum_spectra(const SpectraSum &s, std::int64_t begin, std::int64_t end) {
    for (std::int64_t frame = begin; frame < end; ++frame) {
        std::int64_t bin = 0;
        for (; bin + kLanes <= s.bins; bin += kLanes) sum_bins(s, frame, bin, kLanes);
        if (bin < s.bins) sum_bins(s, frame, bin, int(s.bins - bin));
    }
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
