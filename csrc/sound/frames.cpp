// Norms over frames, depthwise convolution, and recurrence. Compiled once per instruction set, with
// ANTIPHON_VARIANT naming the set.

#include "sound/kernels.h"

#include <cstring>

#include "base/functions.h"

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

// Convolves up to eight channels of one frame. Taps before the first frame and after the last are skipped.
template <class Part>
ANTIPHON_INLINE void convolve_frame(const Depthwise &d, std::int64_t frame, std::int64_t channel, Part part) {
    Floats total = d.bias ? part.load(d.bias + channel) : zeros();
    for (std::int64_t tap = 0; tap < d.taps; ++tap) {
        const std::int64_t source = frame + tap * d.dilation - d.left;
        if (source < 0 || source >= d.frames) continue;
        total = multiply_add(part.load(d.x + source * d.channels + channel), part.load(d.weight + tap * d.channels + channel),
                             total);
    }
    part.store(d.out + frame * d.channels + channel, total);
}

// Convolves eight channels of frames whose taps all lie within the sequence; the weights stay in registers.
template <int kTaps>
ANTIPHON_INLINE void convolve_inside(const Depthwise &d, std::int64_t begin, std::int64_t end, std::int64_t channel) {
    Floats weights[kTaps];
    for (int tap = 0; tap < kTaps; ++tap) weights[tap] = load(d.weight + tap * d.channels + channel);
    const Floats bias = d.bias ? load(d.bias + channel) : zeros();
    for (std::int64_t frame = begin; frame < end; ++frame) {
        Floats total = bias;
        const float *x = d.x + (frame - d.left) * d.channels + channel;
        for (int tap = 0; tap < kTaps; ++tap, x += d.dilation * d.channels) {
            total = multiply_add(load(x), weights[tap], total);
        }
        store(d.out + frame * d.channels + channel, total);
    }
}

// `kTaps` is 0 for numbers of taps without a loop of their own.
template <int kTaps> void convolve_channels(const Depthwise &d, std::int64_t begin, std::int64_t end) {
    const auto between = [](std::int64_t low, std::int64_t value, std::int64_t high) {
        return value < low ? low : value > high ? high : value;
    };
    const std::int64_t first = kTaps ? between(begin, d.left, end) : end;
    const std::int64_t last = between(first, d.frames - (d.taps - 1) * d.dilation + d.left, end);
    std::int64_t c = 0;
    for (; c + kLanes <= d.channels; c += kLanes) {
        for (std::int64_t frame = begin; frame < first; ++frame) convolve_frame(d, frame, c, Whole{});
        if constexpr (kTaps > 0) convolve_inside<kTaps>(d, first, last, c);
        for (std::int64_t frame = last; frame < end; ++frame) convolve_frame(d, frame, c, Whole{});
    }
    if (c == d.channels) return;
    for (std::int64_t frame = begin; frame < end; ++frame) convolve_frame(d, frame, c, Rest{int(d.channels - c)});
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
    switch (d.taps) {
    case 5: return convolve_channels<5>(d, begin, end);
    case 7: return convolve_channels<7>(d, begin, end);
    default: return convolve_channels<0>(d, begin, end);
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
        const std::int64_t frame = r.backward ? r.steps - 1 - step : step;
        const float *const inputs = r.inputs + frame * r.inputs_stride;
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
        std::memcpy(r.out + frame * r.out_stride, next, bytes);
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
