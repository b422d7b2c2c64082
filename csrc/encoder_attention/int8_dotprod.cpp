// Attention in int8 for ARM processors with dot product instructions and fp16 arithmetic.

#include <arm_neon.h>

#include <cmath>
#include <initializer_list>

#include "base/round_neon.h"
#include "base/sdot_tiles.h"
#include "encoder_attention/int8_kernels.h"

namespace antiphon {
namespace {

// Sums start at the bits of 1.5 · 2^23: read as a float, the bits of such a sum are 1.5 · 2^23 + sum without conversion.
constexpr std::int32_t kMagicBits = 0x4B400000;
constexpr float kMagic = 12582912.0f;
// Sums start from memory: loads run beside the arithmetic, while copies of registers would take its slots.
alignas(16) constexpr std::int32_t kStart[8] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits,
                                                kMagicBits, kMagicBits, kMagicBits, kMagicBits};

constexpr std::int64_t kGroupPanels = kGroupKeys / kPanelRows;
constexpr int kCombined = kQueryTile / 2;

void pack_keys(const float *k, std::int64_t stride, const Int8Head &head) {
    const std::int64_t panel_bytes = head.head_dim * kPanelRows;
    for (std::int64_t group = 0; group < head.groups; ++group) {
        const std::int64_t begin = group * kGroupKeys, rest = head.length - begin;
        const std::int64_t count = rest < kGroupKeys ? rest : kGroupKeys;
        uint32x4_t most = vdupq_n_u32(0);
        for (std::int64_t t = begin; t < begin + count; ++t) {
            for (std::int64_t d = 0; d < head.head_dim; d += 4) most = larger(most, k + t * stride + d);
        }
        const Rounding rounding(vmaxvq_u32(most));
        head.key_scales[group] = rounding.scale;
        std::int8_t *const panels = head.keys + group * kGroupPanels * panel_bytes;
        for (std::int64_t t = 0; t < kGroupKeys; ++t) {
            std::int8_t *const target = panels + t / kPanelRows * panel_bytes + t % kPanelRows * 4;
            for (std::int64_t d = 0; d < head.head_dim; d += 16) {
                const int8x16_t codes = t < count ? round_16(k + (begin + t) * stride + d, rounding) : vdupq_n_s8(0);
                const int32x4_t quads = vreinterpretq_s32_s8(codes);
                std::int8_t *const lanes = target + d * kPanelRows;
                vst1q_lane_s32(reinterpret_cast<std::int32_t *>(lanes), quads, 0);
                vst1q_lane_s32(reinterpret_cast<std::int32_t *>(lanes + 32), quads, 1);
                vst1q_lane_s32(reinterpret_cast<std::int32_t *>(lanes + 64), quads, 2);
                vst1q_lane_s32(reinterpret_cast<std::int32_t *>(lanes + 96), quads, 3);
            }
        }
    }
}

void pack_values(const float *v, std::int64_t stride, const Int8Head &head) {
    const std::int64_t columns = head.groups * kGroupKeys;
    for (std::int64_t d = 0; d < head.head_dim; d += 16) {
        uint32x4_t most[4] = {};
        for (std::int64_t t = 0; t < head.length; ++t) {
            for (int i = 0; i < 4; ++i) most[i] = larger(most[i], v + t * stride + d + 4 * i);
        }
        alignas(16) std::uint32_t bits[16];
        alignas(16) float inverses[16];
        for (int i = 0; i < 4; ++i) vst1q_u32(bits + 4 * i, most[i]);
        for (int i = 0; i < 16; ++i) {
            const Rounding rounding(bits[i]);
            head.value_scales[d + i] = rounding.scale;
            inverses[i] = rounding.inverse;
        }
        std::int8_t *const low = head.values + d * columns, *const high = low + kPanelRows * columns;
        const auto row = [&](std::int64_t t) {
            if (t >= head.length) return vdupq_n_s8(0);
            return round_16(v + t * stride + d, vld1q_f32(inverses), vld1q_f32(inverses + 4), vld1q_f32(inverses + 8),
                            vld1q_f32(inverses + 12));
        };
        for (std::int64_t t = 0; t < columns; t += 4) {
            const int8x16_t first = row(t), second = row(t + 1), third = row(t + 2), fourth = row(t + 3);
            const int16x8_t low_pairs = vreinterpretq_s16_s8(vzip1q_s8(first, second));
            const int16x8_t high_pairs = vreinterpretq_s16_s8(vzip2q_s8(first, second));
            const int16x8_t low_others = vreinterpretq_s16_s8(vzip1q_s8(third, fourth));
            const int16x8_t high_others = vreinterpretq_s16_s8(vzip2q_s8(third, fourth));
            vst1q_s8(low + t * kPanelRows, vreinterpretq_s8_s16(vzip1q_s16(low_pairs, low_others)));
            vst1q_s8(low + t * kPanelRows + 16, vreinterpretq_s8_s16(vzip2q_s16(low_pairs, low_others)));
            vst1q_s8(high + t * kPanelRows, vreinterpretq_s8_s16(vzip1q_s16(high_pairs, high_others)));
            vst1q_s8(high + t * kPanelRows + 16, vreinterpretq_s8_s16(vzip2q_s16(high_pairs, high_others)));
        }
    }
}

void round_queries(const float *q, std::int64_t stride, std::int64_t head_dim, float scale, const Int8Queries &queries) {
    constexpr float log2_of_e = 1.44269504f;
    for (std::int64_t i = 0; i < queries.padded; ++i) {
        uint32x4_t most = vdupq_n_u32(0);
        const float *const row = q + i * stride;
        for (std::int64_t d = 0; d < head_dim && i < queries.count; d += 4) most = larger(most, row + d);
        const Rounding rounding(vmaxvq_u32(most));
        queries.factors[i] = rounding.scale * scale * log2_of_e;
        std::int8_t *const codes = queries.codes + i / kQueryTile * kQueryTile * head_dim + i % kQueryTile * 16;
        for (std::int64_t d = 0; d < head_dim; d += 16) {
            vst1q_s8(codes + d * kQueryTile, i < queries.count ? round_16(row + d, rounding) : vdupq_n_s8(0));
        }
    }
}

// Computes scores[query][8 keys], 32 apart, as kMagic plus the product over `steps` times sixteen channels. Registers:
// queries' codes in v0 to v7, keys' quads in v8 to v15, sums in v16 to v31.
inline void score_panel(const std::int8_t *queries, std::int64_t steps, const std::int8_t *keys, float *scores) {
    asm volatile(
        "ldp q16, q17, [%[start]]\n ldp q18, q19, [%[start]]\n ldp q20, q21, [%[start]]\n ldp q22, q23, [%[start]]\n"
        "ldp q24, q25, [%[start]]\n ldp q26, q27, [%[start]]\n ldp q28, q29, [%[start]]\n ldp q30, q31, [%[start]]\n"
        "1:\n"
        "ldp q8, q9, [%[keys]]\n"
        "ldp q0, q1, [%[queries]]\n ldp q2, q3, [%[queries], #32]\n"
        "ldp q4, q5, [%[queries], #64]\n ldp q6, q7, [%[queries], #96]\n"
        "ldp q10, q11, [%[keys], #32]\n"
        ANTIPHON_SDOT_8X8(8, 9, 0)
        "ldp q12, q13, [%[keys], #64]\n"
        ANTIPHON_SDOT_8X8(10, 11, 1)
        "ldp q14, q15, [%[keys], #96]\n"
        ANTIPHON_SDOT_8X8(12, 13, 2)
        "add %[keys], %[keys], #128\n add %[queries], %[queries], #128\n"
        ANTIPHON_SDOT_8X8(14, 15, 3)
        "subs %[steps], %[steps], #1\n b.ne 1b\n"
        "stp q16, q17, [%[scores]]\n stp q18, q19, [%[scores], #128]\n"
        "stp q20, q21, [%[scores], #256]\n stp q22, q23, [%[scores], #384]\n"
        "stp q24, q25, [%[scores], #512]\n stp q26, q27, [%[scores], #640]\n"
        "stp q28, q29, [%[scores], #768]\n stp q30, q31, [%[scores], #896]\n"
        : [queries] "+r"(queries), [keys] "+r"(keys), [steps] "+r"(steps)
        : [scores] "r"(scores), [start] "r"(kStart)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31");
}

// Powers of two are counted in steps of 2^-10, from below the smallest normal 16-bit float. Such a number, taken as the bits
// of a 16-bit float, is the power up to the mantissa, which is linear between integer powers. The weighted sum of three such
// floats, a third of a power apart, differs from the power by 0.4 per cent at most.
constexpr float kSteps = 1024.0f;
constexpr float kMostSteps = 20826.0f;        // steps whose sum is rounded to 127
constexpr float kLeastSteps = 7.0f * kSteps;  // steps whose sum is rounded to 0
alignas(16) constexpr float kMost[4] = {kMagic + kMostSteps, kMagic + kMostSteps, kMagic + kMostSteps, kMagic + kMostSteps};

// Converts a query's scores of a group to codes: 127 for the largest, halved for every 1024 / factor below it. Returns
// lanes whose sum is the sum of the codes.
inline int32x4_t round_weights(const float *scores, float largest, float factor, std::int8_t *codes) {
    const float32x4_t most = vdupq_n_f32(largest), least = vdupq_n_f32(kMagic + kLeastSteps);
    const auto steps = [&](const float *x) {
        // Loaded each time: loads run beside the arithmetic, while copies of registers would take its slots.
        const float32x4_t begin = *reinterpret_cast<const volatile float32x4_t *>(kMost);
        return vreinterpretq_s16_f32(vmaxq_f32(vfmaq_n_f32(begin, vld1q_f32(x) - most, factor), least));
    };
    const auto eight = [&](const float *x) {
        const int16x8_t own = vuzp1q_s16(steps(x), steps(x + 4));
        const auto powers = [&](int further) { return vreinterpretq_f16_s16(own + vdupq_n_s16(further)); };
        const float16x8_t two = vfmaq_f16(vreinterpretq_f16_s16(own), powers(341), vdupq_n_f16(float16_t(0.8f)));
        const float16x8_t sum = vfmaq_f16(two, powers(683), vdupq_n_f16(float16_t(0.64f)));
        const float16x8_t rounding = vdupq_n_f16(float16_t(1536.0f));  // 1.5 · 2^10: codes become the lowest bits of the sum
        return vreinterpretq_s8_f16(sum + rounding);
    };
    const int8x16_t first = vuzp1q_s8(eight(scores), eight(scores + 8));
    const int8x16_t second = vuzp1q_s8(eight(scores + 16), eight(scores + 24));
    vst1q_s8(codes, first);
    vst1q_s8(codes + 16, second);
    const int8x16_t ones = vdupq_n_s8(1);
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), first, ones), second, ones);
}

inline float32x4_t largest_of(const float *scores) {
    float32x4_t most[4];
    for (int i = 0; i < 4; ++i) most[i] = vmaxq_f32(vld1q_f32(scores + 4 * i), vld1q_f32(scores + 16 + 4 * i));
    return vmaxq_f32(vmaxq_f32(most[0], most[1]), vmaxq_f32(most[2], most[3]));
}

// 2^x for x <= 0, to about 1e-6; 0 below -126.
inline float32x4_t power_of_two(float32x4_t x) {
    const float32x4_t bounded = vmaxq_f32(x, vdupq_n_f32(-127.0f)), magic = vdupq_n_f32(kMagic);
    const float32x4_t shifted = bounded + magic, f = bounded - (shifted - magic);
    float32x4_t y = vdupq_n_f32(1.5403530e-4f);
    for (const float c : {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f}) {
        y = vfmaq_f32(vdupq_n_f32(c), y, f);
    }
    const int32x4_t power = vreinterpretq_s32_f32(y) + vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23);
    const uint32x4_t is_small = vcltq_f32(x, vdupq_n_f32(-126.0f));
    return vbslq_f32(is_small, vdupq_n_f32(0), vreinterpretq_f32_s32(power));
}

// Converts four queries' scores of a group to codes, and stores the largest power and the sum of codes of each query.
inline void weigh_four(const float *scores, float32x4_t factors, std::int8_t *codes, std::int64_t stride, float *tops,
                       float *sums) {
    const float32x4_t most = vpmaxq_f32(vpmaxq_f32(largest_of(scores), largest_of(scores + kGroupKeys)),
                                        vpmaxq_f32(largest_of(scores + 2 * kGroupKeys), largest_of(scores + 3 * kGroupKeys)));
    alignas(16) float largest[4], own_factors[4];
    vst1q_f32(largest, most);
    vst1q_f32(own_factors, factors * kSteps);
    int32x4_t sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        sum[i] = round_weights(scores + i * kGroupKeys, largest[i], own_factors[i], codes + i * stride);
    }
    vst1q_f32(tops, (most - vdupq_n_f32(kMagic)) * factors);
    vst1q_f32(sums, vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]))));
}

void weigh(const Int8Head &head, const Int8Queries &queries) {
    alignas(64) float scores[kQueryTile * kGroupKeys];
    for (std::int64_t group = 0; group < head.groups; ++group) {
        const std::int8_t *const keys = head.keys + group * kGroupKeys * head.head_dim;
        const std::int64_t rest = head.length - group * kGroupKeys;
        for (std::int64_t begin = 0; begin < queries.padded; begin += kQueryTile) {
            for (std::int64_t panel = 0; panel < kGroupPanels; ++panel) {
                score_panel(queries.codes + begin * head.head_dim, head.head_dim / 16,
                            keys + panel * kPanelRows * head.head_dim, scores + panel * kPanelRows);
            }
            for (std::int64_t t = rest; t < kGroupKeys; ++t) {
                for (std::int64_t i = 0; i < kQueryTile; ++i) scores[i * kGroupKeys + t] = -INFINITY;
            }
            for (std::int64_t i = begin; i < begin + kQueryTile; i += 4) {
                const std::int64_t index = group * queries.padded + i;
                weigh_four(scores + (i - begin) * kGroupKeys, vld1q_f32(queries.factors + i) * head.key_scales[group],
                           queries.weights + i * queries.weight_stride + group * kGroupKeys, queries.weight_stride,
                           queries.tops + index, queries.sums + index);
            }
        }
    }
    for (std::int64_t begin = 0; begin < queries.padded; begin += 4) {
        float32x4_t top = vdupq_n_f32(-INFINITY), total = vdupq_n_f32(0);
        for (std::int64_t group = 0; group < head.groups; ++group) {
            top = vmaxq_f32(top, vld1q_f32(queries.tops + group * queries.padded + begin));
        }
        for (std::int64_t group = 0; group < head.groups; ++group) {
            float *const own = queries.tops + group * queries.padded + begin;
            const float32x4_t scale = power_of_two(vld1q_f32(own) - top);
            vst1q_f32(own, scale);
            total = vfmaq_f32(total, scale, vld1q_f32(queries.sums + group * queries.padded + begin));
        }
        vst1q_f32(queries.shares + begin, vdupq_n_f32(1.0f) / total);
    }
}

// Computes totals[query][8] of four queries and a panel of values. Registers: sums in v0 to v7, weights in v8 to v11, values
// in v12 to v15, totals in v16 to v23.
inline void combine_panel(const std::int8_t *weights, std::int64_t weight_stride, const float *scales,
                          std::int64_t scale_stride, const std::int8_t *values, std::int64_t groups, float *totals) {
    const std::int8_t *x0 = weights, *x1 = x0 + weight_stride, *x2 = x1 + weight_stride, *x3 = x2 + weight_stride;
#define ANTIPHON_QUAD(offset, a, b, lane) \
    "ldp q" #a ", q" #b ", [%[values], #" #offset "]\n" \
    ANTIPHON_SDOT_4X8(a, b, lane)
#define ANTIPHON_WEIGHTS \
    "ldr q8, [%[x0]], #16\n" \
    "ldr q9, [%[x1]], #16\n" \
    "ldr q10, [%[x2]], #16\n" \
    "ldr q11, [%[x3]], #16\n"
#define ANTIPHON_QUERY(lane, a, b, c, d) \
    "fmla v" #c ".4s, v" #a ".4s, v25.s[" #lane "]\n" \
    "fmla v" #d ".4s, v" #b ".4s, v25.s[" #lane "]\n"
    asm volatile(
        "dup v24.4s, %w[magic]\n"
        "movi v16.16b, #0\n movi v17.16b, #0\n movi v18.16b, #0\n movi v19.16b, #0\n"
        "movi v20.16b, #0\n movi v21.16b, #0\n movi v22.16b, #0\n movi v23.16b, #0\n"
        "1:\n"
        "ldp q0, q1, [%[start]]\n ldp q2, q3, [%[start]]\n ldp q4, q5, [%[start]]\n ldp q6, q7, [%[start]]\n"
        ANTIPHON_WEIGHTS
        ANTIPHON_QUAD(0, 12, 13, 0)
        ANTIPHON_QUAD(32, 14, 15, 1)
        ANTIPHON_QUAD(64, 12, 13, 2)
        ANTIPHON_QUAD(96, 14, 15, 3)
        ANTIPHON_WEIGHTS
        ANTIPHON_QUAD(128, 12, 13, 0)
        ANTIPHON_QUAD(160, 14, 15, 1)
        ANTIPHON_QUAD(192, 12, 13, 2)
        ANTIPHON_QUAD(224, 14, 15, 3)
        "ldr q25, [%[scales]]\n"
        "add %[values], %[values], #256\n"
        "add %[scales], %[scales], %[scale_bytes]\n"
        "fsub v0.4s, v0.4s, v24.4s\n fsub v1.4s, v1.4s, v24.4s\n"
        "fsub v2.4s, v2.4s, v24.4s\n fsub v3.4s, v3.4s, v24.4s\n"
        "fsub v4.4s, v4.4s, v24.4s\n fsub v5.4s, v5.4s, v24.4s\n"
        "fsub v6.4s, v6.4s, v24.4s\n fsub v7.4s, v7.4s, v24.4s\n"
        ANTIPHON_QUERY(0, 0, 1, 16, 17)
        ANTIPHON_QUERY(1, 2, 3, 18, 19)
        ANTIPHON_QUERY(2, 4, 5, 20, 21)
        ANTIPHON_QUERY(3, 6, 7, 22, 23)
        "subs %[groups], %[groups], #1\n b.ne 1b\n"
        "stp q16, q17, [%[totals]]\n stp q18, q19, [%[totals], #32]\n"
        "stp q20, q21, [%[totals], #64]\n stp q22, q23, [%[totals], #96]\n"
        : [values] "+r"(values), [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [x3] "+r"(x3), [scales] "+r"(scales),
          [groups] "+r"(groups)
        : [totals] "r"(totals), [start] "r"(kStart), [magic] "r"(kMagicBits), [scale_bytes] "r"(scale_stride * 4)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25");
#undef ANTIPHON_QUERY
#undef ANTIPHON_WEIGHTS
#undef ANTIPHON_QUAD
}

void combine(const Int8Head &head, const Int8Queries &queries, float *out, std::int64_t out_stride) {
    alignas(16) float totals[kCombined * kPanelRows];
    for (std::int64_t channel = 0; channel < head.head_dim; channel += kPanelRows) {
        const std::int8_t *const values = head.values + channel * head.groups * kGroupKeys;
        const float32x4_t low = vld1q_f32(head.value_scales + channel), high = vld1q_f32(head.value_scales + channel + 4);
        for (std::int64_t begin = 0; begin < queries.count; begin += kCombined) {
            combine_panel(queries.weights + begin * queries.weight_stride, queries.weight_stride, queries.tops + begin,
                          queries.padded, values, head.groups, totals);
            for (std::int64_t i = 0; i < kCombined && begin + i < queries.count; ++i) {
                const float share = queries.shares[begin + i];
                float *const target = out + (begin + i) * out_stride + channel;
                vst1q_f32(target, vld1q_f32(totals + i * kPanelRows) * (low * share));
                vst1q_f32(target + 4, vld1q_f32(totals + i * kPanelRows + 4) * (high * share));
            }
        }
    }
}

}  // namespace

namespace dotprod {
extern const Int8AttentionKernels int8_attention;
const Int8AttentionKernels int8_attention = {pack_keys, pack_values, round_queries, weigh, combine};
}  // namespace dotprod

}  // namespace antiphon
