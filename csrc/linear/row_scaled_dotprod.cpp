// Row-scaled products for ARM processors with the dot product instructions: eight rows by eight tokens at a time.

#include <arm_neon.h>

#include "base/round_neon.h"
#include "base/sdot_tiles.h"
#include "linear/row_scaled.h"

namespace antiphon {
namespace {

constexpr int kTile = 8;  // rows, and tokens, that are computed together

// Computes sums[token][8]; quads of weights lie 64 bytes apart. Registers: tokens' codes in v0 to v7, weights of a quad of
// columns in two of v8 to v15, sums in v16 to v31.
inline void multiply_tile(const std::int8_t *x, std::int64_t columns, const std::int8_t *weight, std::int32_t *sums) {
    const std::int8_t *rows[kTile];
    for (int t = 0; t < kTile; ++t) rows[t] = x + t * columns;
    std::int64_t steps = columns / 16;
    asm volatile(
        "movi v16.16b, #0\n movi v17.16b, #0\n movi v18.16b, #0\n movi v19.16b, #0\n"
        "movi v20.16b, #0\n movi v21.16b, #0\n movi v22.16b, #0\n movi v23.16b, #0\n"
        "movi v24.16b, #0\n movi v25.16b, #0\n movi v26.16b, #0\n movi v27.16b, #0\n"
        "movi v28.16b, #0\n movi v29.16b, #0\n movi v30.16b, #0\n movi v31.16b, #0\n"
        "1:\n"
        "ldr q0, [%[row0]], #16\n ldr q1, [%[row1]], #16\n ldr q2, [%[row2]], #16\n ldr q3, [%[row3]], #16\n"
        "ldr q4, [%[row4]], #16\n ldr q5, [%[row5]], #16\n ldr q6, [%[row6]], #16\n ldr q7, [%[row7]], #16\n"
        "ldp q8, q9, [%[weight]]\n"
        "ldp q10, q11, [%[weight], #64]\n"
        ANTIPHON_SDOT_8X8(8, 9, 0)
        "ldp q12, q13, [%[weight], #128]\n"
        ANTIPHON_SDOT_8X8(10, 11, 1)
        "ldp q14, q15, [%[weight], #192]\n"
        ANTIPHON_SDOT_8X8(12, 13, 2)
        "add %[weight], %[weight], #256\n"
        ANTIPHON_SDOT_8X8(14, 15, 3)
        "subs %[steps], %[steps], #1\n b.ne 1b\n"
        "stp q16, q17, [%[sums]]\n stp q18, q19, [%[sums], #32]\n"
        "stp q20, q21, [%[sums], #64]\n stp q22, q23, [%[sums], #96]\n"
        "stp q24, q25, [%[sums], #128]\n stp q26, q27, [%[sums], #160]\n"
        "stp q28, q29, [%[sums], #192]\n stp q30, q31, [%[sums], #224]\n"
        : [row0] "+r"(rows[0]), [row1] "+r"(rows[1]), [row2] "+r"(rows[2]), [row3] "+r"(rows[3]), [row4] "+r"(rows[4]),
          [row5] "+r"(rows[5]), [row6] "+r"(rows[6]), [row7] "+r"(rows[7]), [weight] "+r"(weight), [steps] "+r"(steps)
        : [sums] "r"(sums)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31");
}

void multiply(const ScaledProduct &p, std::int64_t panel, std::int64_t begin, std::int64_t end, float *totals) {
    const std::int8_t *const weight = p.panels + panel * p.columns * kScaledRows;
    const float *const scales = p.row_scales + panel * kScaledRows;
    alignas(16) std::int32_t sums[kTile * kTile];
    for (std::int64_t token = begin; token < end; token += kTile, totals += kTile * kScaledRows) {
        for (int half = 0; half < 2; ++half) {
            multiply_tile(p.x + token * p.columns, p.columns, weight + half * kTile * 4, sums);
            const float32x4_t low = vld1q_f32(scales + half * kTile), high = vld1q_f32(scales + half * kTile + 4);
            for (int t = 0; t < kTile; ++t) {
                const float scale = token + t < end ? p.x_scales[token + t] : 0.0f;
                float *const target = totals + t * kScaledRows + half * kTile;
                vst1q_f32(target, vcvtq_f32_s32(vld1q_s32(sums + t * kTile)) * (low * scale));
                vst1q_f32(target + 4, vcvtq_f32_s32(vld1q_s32(sums + t * kTile + 4)) * (high * scale));
            }
        }
    }
}

void quantize(const float *x, std::int64_t columns, std::int8_t *codes, float *scale) {
    uint32x4_t most[4] = {};
    for (std::int64_t i = 0; i < columns; i += 16) {
        for (int v = 0; v < 4; ++v) most[v] = larger(most[v], x + i + 4 * v);
    }
    const Rounding rounding(vmaxvq_u32(vmaxq_u32(vmaxq_u32(most[0], most[1]), vmaxq_u32(most[2], most[3]))));
    *scale = rounding.scale;
    for (std::int64_t i = 0; i < columns; i += 16) vst1q_s8(codes + i, round_16(x + i, rounding));
}

}  // namespace

namespace dotprod {
extern const ScaledKernels scaled;
const ScaledKernels scaled = {multiply, quantize};
}  // namespace dotprod

}  // namespace antiphon
