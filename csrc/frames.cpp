// Norms over frames, convolution of each channel by itself, and recurrence. Compiled once per instruction set, with
// ANTIPHON_VARIANT naming the set.

#include "frames.h"

#include <cstring>

#include "functions.h"

namespace antiphon {
namespace {

ANTIPHON_INLINE Lanes squared_sine(Lanes x) {
    const Lanes sine = near_sine(reduced(x).rest);
    return sine * sine;
}

template <FrameFunction function> ANTIPHON_INLINE Floats shape(Floats y, Floats slope) {
    if constexpr (function == FrameFunction::leaky) {
        return map([](Lanes a, Lanes b) -> Lanes { return a > 0.0f ? a : a * b; }, y, slope);
    } else if constexpr (function == FrameFunction::snake) {
        return map([](Lanes a) -> Lanes { return a + squared_sine(a); }, y);
    } else {
        return y;
    }
}

template <FrameFunction function> void norm_frames(const FrameNorm &n, std::int64_t begin, std::int64_t end) {
    const Floats slope = splat(n.slope);
    constexpr std::int64_t kPart = 512;
    float part[kPart];
    for (std::int64_t frame = begin; frame < end; ++frame) {
        const float *const x = n.x + frame * n.channels;
        for (std::int64_t first = 0; first < n.channels; first += kPart) {
            const std::int64_t count = n.channels - first < kPart ? n.channels - first : kPart;
            float *const out = n.half_out ? part : n.out + frame * n.channels + first;
            std::int64_t c = 0;
            for (; c + kLanes <= count; c += kLanes) {
                const Floats centred = load(x + first + c) - load(n.mean + first + c);
                const Floats y = multiply_add(centred, load(n.gain + first + c), load(n.offset + first + c));
                store(out + c, shape<function>(y, slope));
            }
            if (const int rest = int(count - c)) {
                const Floats centred = load_part(x + first + c, rest) - load_part(n.mean + first + c, rest);
                const Floats y = multiply_add(centred, load_part(n.gain + first + c, rest), load_part(n.offset + first + c, rest));
                store_part(out + c, shape<function>(y, slope), rest);
            }
            if (n.half_out) n.round(part, n.half_out + frame * n.channels + first, count);
        }
    }
}

void sum_channels(const FrameSums &s, std::int64_t block, std::int64_t first, std::int64_t last, std::int64_t channel) {
    Floats sums[2] = {zeros(), zeros()}, squares[2] = {zeros(), zeros()};
    const Floats origin[2] = {load(s.origin + channel), load(s.origin + channel + kLanes)};
    for (std::int64_t frame = first; frame < last; ++frame) {
        const float *const x = s.x + frame * s.channels + channel;
        for (int v = 0; v < 2; ++v) {
            const Floats centred = load(x + v * kLanes) - origin[v];
            sums[v] = sums[v] + centred;
            squares[v] = multiply_add(centred, centred, squares[v]);
        }
    }
    for (int v = 0; v < 2; ++v) {
        store(s.sums + block * s.channels + channel + v * kLanes, sums[v]);
        store(s.squares + block * s.channels + channel + v * kLanes, squares[v]);
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void frame_sums(const FrameSums &s, std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = block * kSumFrames, last = first + kSumFrames < s.frames ? first + kSumFrames : s.frames;
        std::int64_t channel = 0;
        for (; channel + 2 * kLanes <= s.channels; channel += 2 * kLanes) sum_channels(s, block, first, last, channel);
        for (; channel < s.channels; ++channel) {
            float sum = 0, square = 0;
            for (std::int64_t frame = first; frame < last; ++frame) {
                const float centred = s.x[frame * s.channels + channel] - s.origin[channel];
                sum += centred;
                square += centred * centred;
            }
            s.sums[block * s.channels + channel] = sum;
            s.squares[block * s.channels + channel] = square;
        }
    }
}

void frame_norm(const FrameNorm &n, std::int64_t begin, std::int64_t end) {
    switch (n.function) {
    case FrameFunction::none: return norm_frames<FrameFunction::none>(n, begin, end);
    case FrameFunction::leaky: return norm_frames<FrameFunction::leaky>(n, begin, end);
    case FrameFunction::snake: return norm_frames<FrameFunction::snake>(n, begin, end);
    }
}

void depthwise(const Depthwise &d, std::int64_t begin, std::int64_t end) {
    for (std::int64_t frame = begin; frame < end; ++frame) {
        float *const out = d.out + frame * d.channels;
        for (std::int64_t c = 0; c < d.channels; c += kLanes) {
            const int count = d.channels - c < kLanes ? int(d.channels - c) : kLanes;
            Floats total = !d.bias ? zeros() : count == kLanes ? load(d.bias + c) : load_part(d.bias + c, count);
            for (std::int64_t tap = 0; tap < d.taps; ++tap) {
                const std::int64_t source = frame + tap * d.dilation - d.left;
                if (source < 0 || source >= d.frames) continue;
                const float *const x = d.x + source * d.channels + c, *const w = d.weight + tap * d.channels + c;
                total = count == kLanes ? multiply_add(load(x), load(w), total)
                                        : multiply_add(load_part(x, count), load_part(w, count), total);
            }
            if (count == kLanes) store(out + c, total);
            else store_part(out + c, total, count);
        }
    }
}

void recur(const Recurrence &r) {
    const std::int64_t hidden = r.hidden;
    float *const cells = r.state, *state = r.state + hidden, *next = r.state + 2 * hidden;
    const std::size_t bytes = hidden * sizeof(float);
    std::memset(r.state, 0, 3 * bytes);
    if (r.h) {
        std::memcpy(cells, r.c, bytes);
        std::memcpy(state, r.h, bytes);
    }
    const auto sigmoid = [](Lanes x) -> Lanes { return 1.0f / (1.0f + exp_lanes(-x)); };
    for (std::int64_t step = 0; step < r.steps; ++step) {
        const std::int64_t place = r.backward ? r.steps - 1 - step : step;
        const float *const inputs = r.inputs + place * r.inputs_stride;
        const float *weight = r.panels;
        for (std::int64_t unit = 0; unit < hidden; unit += kLanes) {
            Floats gates[4];
            for (int gate = 0; gate < 4; ++gate) gates[gate] = load(inputs + gate * hidden + unit);
            for (std::int64_t k = 0; k < hidden; ++k, weight += 4 * kLanes) {
                const Floats value = splat(state[k]);
                for (int gate = 0; gate < 4; ++gate) gates[gate] = multiply_add(load(weight + gate * kLanes), value, gates[gate]);
            }
            const Floats kept = map(sigmoid, gates[1]) * load(cells + unit);
            const Floats cell = multiply_add(map(sigmoid, gates[0]), hyperbolic_tangent(gates[2]), kept);
            store(cells + unit, cell);
            store(next + unit, map(sigmoid, gates[3]) * hyperbolic_tangent(cell));
        }
        std::memcpy(r.out + place * r.out_stride, next, bytes);
        float *const swapped = state;
        state = next;
        next = swapped;
    }
    if (r.h) {
        std::memcpy(r.c, cells, bytes);
        std::memcpy(r.h, state, bytes);
    }
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
