// Convolution. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.
//
// An output is one sum over taps and channels in ascending order, independent of other outputs.

#include "sound/kernels.h"

#include "base/vector.h"

namespace antiphon {
namespace {

// Frames and panels of channels that are computed together: they fill the registers.
#if defined(__AVX2__)
constexpr int kFrames = 6, kPanels = 2;
#else
constexpr int kFrames = 8, kPanels = 1;
#endif
constexpr std::int64_t kColumns = 512;  // columns of one pass: a panel's part stays in the first-level cache

// totals += weight · x over the columns [begin, end).
template <int frames, int panels>
ANTIPHON_INLINE void convolve_tile(const float *x, std::int64_t x_stride, const float *weight, std::int64_t columns,
                                   std::int64_t begin, std::int64_t end, Floats totals[frames][panels]) {
    std::int64_t k = begin;
#if defined(__aarch64__)
    for (; k + 4 <= end; k += 4) {
        float32x4_t values[frames];
#pragma GCC unroll 8
        for (int f = 0; f < frames; ++f) values[f] = vld1q_f32(x + f * x_stride + k);
#define ANTIPHON_LANE(lane) \
    { \
        const Floats w = load(weight + (k + lane) * kLanes); \
        _Pragma("GCC unroll 8") for (int f = 0; f < frames; ++f) { \
            totals[f][0].low = vfmaq_laneq_f32(totals[f][0].low, w.low, values[f], lane); \
            totals[f][0].high = vfmaq_laneq_f32(totals[f][0].high, w.high, values[f], lane); \
        } \
    }
        ANTIPHON_LANE(0)
        ANTIPHON_LANE(1)
        ANTIPHON_LANE(2)
        ANTIPHON_LANE(3)
#undef ANTIPHON_LANE
    }
#endif
    for (; k < end; ++k) {
        Floats w[panels];
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p) w[p] = load(weight + (p * columns + k) * kLanes);
#pragma GCC unroll 8
        for (int f = 0; f < frames; ++f) {
            const Floats value = splat(x[f * x_stride + k]);
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) totals[f][p] = multiply_add(w[p], value, totals[f][p]);
        }
    }
}

// Adds the products of columns [begin, end) for some frames and whole panels to the sums in `out`; column 0 starts them.
template <int frames, int panels>
void convolve_panels(const Convolution &c, std::int64_t frame, std::int64_t panel, std::int64_t begin, std::int64_t end) {
    Floats totals[frames][panels];
    float *const out = c.out + frame * c.out_stride + panel * kLanes;
    if (begin) {
#pragma GCC unroll 8
        for (int f = 0; f < frames; ++f) {
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) totals[f][p] = load(out + f * c.out_stride + p * kLanes);
        }
    } else {
#pragma GCC unroll 8
        for (int f = 0; f < frames; ++f) {
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) totals[f][p] = zeros();
        }
    }
    convolve_tile<frames, panels>(c.x + frame * c.x_stride, c.x_stride, c.panels + panel * c.columns * kLanes, c.columns,
                                  begin, end, totals);
#pragma GCC unroll 8
    for (int f = 0; f < frames; ++f) {
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p) store(out + f * c.out_stride + p * kLanes, totals[f][p]);
    }
}

template <int panels> void convolve_frames(const Convolution &c, std::int64_t first, std::int64_t last, std::int64_t panel) {
    for (std::int64_t begin = 0; begin < c.columns; begin += kColumns) {
        const std::int64_t end = begin + kColumns < c.columns ? begin + kColumns : c.columns;
        std::int64_t frame = first;
        for (; frame + kFrames <= last; frame += kFrames) convolve_panels<kFrames, panels>(c, frame, panel, begin, end);
        for (; frame < last; ++frame) convolve_panels<1, panels>(c, frame, panel, begin, end);
    }
}

// Computes the last panel if it is not full.
void convolve_rest(const Convolution &c, std::int64_t first, std::int64_t last, std::int64_t panel) {
    for (std::int64_t frame = first; frame < last; ++frame) {
        Floats totals[1][1] = {{zeros()}};
        convolve_tile<1, 1>(c.x + frame * c.x_stride, c.x_stride, c.panels + panel * c.columns * kLanes, c.columns, 0,
                            c.columns, totals);
        store_part(c.out + frame * c.out_stride + panel * kLanes, totals[0][0], int(c.channels - panel * kLanes));
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void convolve(const Convolution &c, std::int64_t begin, std::int64_t end) {
    const std::int64_t panels = c.channels / kLanes;
    std::int64_t panel = 0;
    for (; panel + kPanels <= panels; panel += kPanels) convolve_frames<kPanels>(c, begin, end, panel);
    for (; panel < panels; ++panel) convolve_frames<1>(c, begin, end, panel);
    if (c.channels % kLanes) convolve_rest(c, begin, end, panel);
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
