// Winograd's algorithm for convolutions in fp16: four outputs from three taps, or from groups of four.
//
// A group's inputs and taps are polynomials; products of their values at some points, and at infinity, give the values of
// the outputs' polynomial. The points are chosen for the smallest errors. The inputs' values at a point are scaled so that
// all coefficients have few bits; the taps' values are divided by the same factors.

#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "half/kernels.h"

namespace antiphon {
namespace {

template <int taps> struct Winograd {
    static constexpr int kPoints = taps + int(kTileOutputs) - 1;
    static constexpr double kAt[6] = {0, 1, -1, 0.5, -2, 2};  // finite points, of which kPoints - 1 are used

    struct Matrices {
        float there[kPoints][kPoints] = {}, back[kTileOutputs][kPoints] = {};
    };

    static constexpr Matrices make() {
        Matrices made;
        for (int p = 0; p < kPoints; ++p) {
            // Coefficients, lowest first, of the product of x - a over the other finite points a.
            double polynomial[kPoints + 1] = {1};
            int degree = 0;
            for (int q = 0; q < kPoints - 1; ++q) {
                if (q == p) continue;
                for (int i = ++degree; i >= 0; --i) polynomial[i] = (i ? polynomial[i - 1] : 0) - kAt[q] * polynomial[i];
            }
            for (int i = 0; i < kPoints; ++i) made.there[p][i] = float(polynomial[i]);
            double power = 1;
            for (int i = 0; i < kTileOutputs; ++i, power *= p < kPoints - 1 ? kAt[p] : 0) {
                made.back[i][p] = p < kPoints - 1 ? float(power) : i == kTileOutputs - 1 ? 1.0f : 0.0f;
            }
        }
        return made;
    }
    static constexpr Matrices kMatrices = make();
};

// Sum of row[i] · x[i], without factors of zero, which are known at compile time.
template <int taps, int point, int i> inline __attribute__((always_inline)) float32x4_t value_at(const float32x4_t *x) {
    constexpr float factor = Winograd<taps>::kMatrices.there[point][i];
    if constexpr (i == 0) {
        if constexpr (factor == 0) return vdupq_n_f32(0);
        else return vmulq_n_f32(x[0], factor);
    } else {
        const float32x4_t rest = value_at<taps, point, i - 1>(x);
        if constexpr (factor == 0) return rest;
        else if constexpr (factor == 1) return vaddq_f32(rest, x[i]);
        else if constexpr (factor == -1) return vsubq_f32(rest, x[i]);
        else return vfmaq_n_f32(rest, x[i], factor);
    }
}

template <int taps, int point>
inline __attribute__((always_inline)) void store_values(const float32x4_t *low, const float32x4_t *high, float16_t *out,
                                                        std::int64_t stride) {
    constexpr int last = Winograd<taps>::kPoints - 1;
    const float32x4_t first = value_at<taps, point, last>(low), second = value_at<taps, point, last>(high);
    vst1q_f16(out, vcvt_high_f16_f32(vcvt_f16_f32(first), second));
    if constexpr (point < last) store_values<taps, point + 1>(low, high, out + stride, stride);
}

// Computes there[point][tile][inputs] of a block of output frames from `begin` on. The outputs of `dilation` consecutive
// tiles interleave: tile i has outputs from frame begin + i / dilation * 4 * dilation + i % dilation on.
template <int taps>
void way_there(const HalfConvolution &c, std::int64_t begin, std::int64_t frames, float16_t *there) {
    constexpr int points = Winograd<taps>::kPoints;
    const auto *const x = reinterpret_cast<const float16_t *>(c.x), *const zeros = reinterpret_cast<const float16_t *>(c.zeros);
    const std::int64_t count = c.inputs_there(frames);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t first = begin + i / c.dilation * kTileOutputs * c.dilation + i % c.dilation - c.left;
        const float16_t *rows[points];
        for (int p = 0; p < points; ++p) {
            const std::int64_t source = first + p * c.dilation;
            rows[p] = source >= 0 && source < c.frames ? x + source * c.inputs : zeros;
        }
        for (std::int64_t k = 0; k < c.inputs; k += 8) {
            float32x4_t low[points], high[points];
            for (int p = 0; p < points; ++p) {
                const float16x8_t halves = vld1q_f16(rows[p] + k);
                low[p] = vcvt_f32_f16(vget_low_f16(halves));
                high[p] = vcvt_high_f32_f16(halves);
            }
            store_values<taps, 0>(low, high, there + i * c.inputs + k, count * c.inputs);
        }
    }
}

template <int taps, int output, int point>
inline __attribute__((always_inline)) float32x4_t output_of(const float32x4_t *sums) {
    constexpr float factor = Winograd<taps>::kMatrices.back[output][point];
    if constexpr (point == 0) {
        if constexpr (factor == 0) return vdupq_n_f32(0);
        else return sums[0];
    } else {
        const float32x4_t rest = output_of<taps, output, point - 1>(sums);
        if constexpr (factor == 0) return rest;
        else if constexpr (factor == 1) return vaddq_f32(rest, sums[point]);
        else if constexpr (factor == -1) return vsubq_f32(rest, sums[point]);
        else return vfmaq_n_f32(rest, sums[point], factor);
    }
}

// Transforms sums [points][tiles][16] back to totals [frames of the block][16].
template <int taps> void way_back(const float *sums, std::int64_t tiles, std::int64_t dilation, float *totals) {
    constexpr int points = Winograd<taps>::kPoints, last = points - 1;
    for (std::int64_t i = 0; i < tiles; ++i) {
        float *const out = totals + (i / dilation * kTileOutputs * dilation + i % dilation) * kHalfPanel;
        for (int k = 0; k < kHalfPanel; k += 4) {
            float32x4_t at[points];
            for (int p = 0; p < points; ++p) at[p] = vld1q_f32(sums + (p * tiles + i) * kHalfPanel + k);
            // The parentheses: Clang's vst1q_f32 is a macro, which would take template arguments for its own.
            vst1q_f32(out + k, (output_of<taps, 0, last>(at)));
            vst1q_f32(out + dilation * kHalfPanel + k, (output_of<taps, 1, last>(at)));
            vst1q_f32(out + 2 * dilation * kHalfPanel + k, (output_of<taps, 2, last>(at)));
            vst1q_f32(out + 3 * dilation * kHalfPanel + k, (output_of<taps, 3, last>(at)));
        }
    }
}

}  // namespace
}  // namespace antiphon
