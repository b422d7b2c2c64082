// Packed product for ARM processors with dot product instructions: an instruction multiplies four rows by a quad.

#include <arm_neon.h>

#include <utility>

#include "base/sdot_tiles.h"
#include "packed/dotprod_few.h"
#include "packed/driver.h"

namespace antiphon {
namespace {

// Multiplies all unpacked groups of a block for `vectors` times four rows.
template <int type, int tokens, int vectors>
ANTIPHON_INLINE void rows_product(const Unpacked &unpacked, int first_row, int groups, const TokenView &x, float *totals) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    float32x4_t total[tokens][vectors];
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < vectors; ++v) total[t][v] = vld1q_f32(totals + t * kPackedRows + first_row + 4 * v);
    }
    for (int g = 0; g < groups; ++g) {
        const std::int8_t *const values = x.codes + g * kPackedGroup;
        const auto load = [&](int q, int v) __attribute__((always_inline)) {
            return vld1q_s8(unpacked.codes[g][q][first_row + 4 * v]);
        };
        int32x4_t sums[tokens][vectors];
        float32x4_t exact[tokens][vectors];
        const auto begin = [&]() __attribute__((always_inline)) {
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < vectors; ++v) sums[t][v] = reload(kMagicStart);
            }
        };
        begin();
        multiply_half<0>(load, values, x.stride, sums);
        if constexpr (form.halves) {
            for (int v = 0; v < vectors; ++v) {
                const float32x4_t scale = vld1q_f32(unpacked.half_scales[g][0] + first_row + 4 * v);
                for (int t = 0; t < tokens; ++t) exact[t][v] = to_float(sums[t][v]) * scale;
            }
            begin();
            multiply_half<1>(load, values, x.stride, sums);
            for (int v = 0; v < vectors; ++v) {
                const float32x4_t scale = vld1q_f32(unpacked.half_scales[g][1] + first_row + 4 * v);
                for (int t = 0; t < tokens; ++t) exact[t][v] = vfmaq_f32(exact[t][v], to_float(sums[t][v]), scale);
            }
        } else {
            multiply_half<1>(load, values, x.stride, sums);
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < vectors; ++v) exact[t][v] = to_float(sums[t][v]);
            }
        }
        for (int t = 0; t < tokens; ++t) {
            const float x_scale = x.scales[t * x.groups + g];
            for (int v = 0; v < vectors; ++v) {
                const float32x4_t scale = vmulq_n_f32(vld1q_f32(unpacked.scales[g] + first_row + 4 * v), x_scale);
                total[t][v] = vfmaq_f32(total[t][v], exact[t][v], scale);
            }
        }
    }
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < vectors; ++v) vst1q_f32(totals + t * kPackedRows + first_row + 4 * v, total[t][v]);
    }
}

// Multiplies all unpacked groups of a block for eight rows and four tokens. Registers: sums in v0-v7, tokens' codes in
// v8-v11, weights in v12-v15, totals in v16-v23.
ANTIPHON_INLINE void four_tokens(const Unpacked &unpacked, int first_row, int groups, const TokenView &x, float *totals) {
    const std::int8_t *codes = &unpacked.codes[0][0][first_row][0], *x0 = x.codes, *x1 = x0 + x.stride, *x2 = x1 + x.stride,
                      *x3 = x2 + x.stride;
    const float *scales = unpacked.scales[0] + first_row;
    const float *s0 = x.scales, *s1 = s0 + x.groups, *s2 = s1 + x.groups, *s3 = s2 + x.groups;
    std::int64_t left = groups;
    float *const target = totals + first_row;
    // Sums start from memory: loads run beside the arithmetic, while copies of registers would take its slots.
    alignas(16) static constexpr std::int32_t start[8] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits,
                                                          kMagicBits, kMagicBits, kMagicBits, kMagicBits};
#define ANTIPHON_QUAD(offset, a, b, lane) \
    "ldp q" #a ", q" #b ", [%[codes], #" #offset "]\n" \
    ANTIPHON_SDOT_4X8(a, b, lane)
#define ANTIPHON_TOKEN(scale, a, b, c, d) \
    "ldr s27, [%[" #scale "]], #4\n" \
    "fsub v" #a ".4s, v" #a ".4s, v24.4s\n" \
    "fsub v" #b ".4s, v" #b ".4s, v24.4s\n" \
    "fmul v28.4s, v25.4s, v27.s[0]\n" \
    "fmul v29.4s, v26.4s, v27.s[0]\n" \
    "fmla v" #c ".4s, v" #a ".4s, v28.4s\n" \
    "fmla v" #d ".4s, v" #b ".4s, v29.4s\n"
#define ANTIPHON_CODES \
    "ldr q8, [%[x0]], #16\n" \
    "ldr q9, [%[x1]], #16\n" \
    "ldr q10, [%[x2]], #16\n" \
    "ldr q11, [%[x3]], #16\n"
    asm volatile(
        "dup v24.4s, %w[magic]\n"
        "ldp q16, q17, [%[target]]\n"
        "ldp q18, q19, [%[target], #64]\n"
        "ldp q20, q21, [%[target], #128]\n"
        "ldp q22, q23, [%[target], #192]\n"
        "1:\n"
        "ldp q0, q1, [%[start]]\n"
        "ldp q2, q3, [%[start]]\n"
        "ldp q4, q5, [%[start]]\n"
        "ldp q6, q7, [%[start]]\n"
        ANTIPHON_CODES
        ANTIPHON_QUAD(0, 12, 13, 0)
        ANTIPHON_QUAD(64, 14, 15, 1)
        ANTIPHON_QUAD(128, 12, 13, 2)
        ANTIPHON_QUAD(192, 14, 15, 3)
        ANTIPHON_CODES
        ANTIPHON_QUAD(256, 12, 13, 0)
        ANTIPHON_QUAD(320, 14, 15, 1)
        ANTIPHON_QUAD(384, 12, 13, 2)
        ANTIPHON_QUAD(448, 14, 15, 3)
        "ldp q25, q26, [%[scales]]\n"
        "add %[codes], %[codes], #512\n"
        "add %[scales], %[scales], #64\n"
        ANTIPHON_TOKEN(s0, 0, 1, 16, 17)
        ANTIPHON_TOKEN(s1, 2, 3, 18, 19)
        ANTIPHON_TOKEN(s2, 4, 5, 20, 21)
        ANTIPHON_TOKEN(s3, 6, 7, 22, 23)
        "subs %[left], %[left], #1\n"
        "b.ne 1b\n"
        "stp q16, q17, [%[target]]\n"
        "stp q18, q19, [%[target], #64]\n"
        "stp q20, q21, [%[target], #128]\n"
        "stp q22, q23, [%[target], #192]\n"
        : [codes] "+r"(codes), [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [x3] "+r"(x3), [scales] "+r"(scales),
          [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [left] "+r"(left)
        : [target] "r"(target), [start] "r"(start), [magic] "r"(kMagicBits)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29");
#undef ANTIPHON_QUAD
#undef ANTIPHON_TOKEN
#undef ANTIPHON_CODES
}

constexpr int kRowVectors = kPackedRows / 4;

struct DotProduct {
    static constexpr int kMicroTokens = 4, kDirectTokens = 0;
    static constexpr bool kFetchesGroups = true;
    struct Session {};

    // Codes of eight bits need no unpacking, so a copy that tokens share pays off only for more tokens.
    template <int type> static constexpr int kFewTokens = PackedFormOf<type>::form.bits == 8 ? 8 : 4;
    template <int type>
    static void few_tokens(const std::uint8_t *tile, TokenView x, std::int64_t tokens, float *totals, float *minima) {
        for (; tokens > 4; tokens -= 4) {
            multiply_few<type, 4>(tile, x, totals, minima);
            x = x.after(4);
            totals += 4 * kPackedRows;
            minima += 4 * kPackedRows;
        }
        switch (tokens) {
        case 1: return multiply_few<type, 1>(tile, x, totals, minima);
        case 2: return multiply_few<type, 2>(tile, x, totals, minima);
        case 3: return multiply_few<type, 3>(tile, x, totals, minima);
        case 4: return multiply_few<type, 4>(tile, x, totals, minima);
        }
    }

    template <int type> static void read_head(const std::uint8_t *head, int groups, Unpacked &out) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        float32x4_t values[kRowVectors];
        const auto store = [&](float *target) __attribute__((always_inline)) {
            for (int v = 0; v < kRowVectors; ++v) vst1q_f32(target + 4 * v, values[v]);
        };
        const Factors<kRowVectors> factors(head, 1), minimum_factors(head + 32, -1);
        for (int g = 0; g < groups; ++g) {
            if constexpr (form.halves) {
                for (int v = 0; v < kRowVectors; ++v) vst1q_f32(out.scales[g] + 4 * v, factors.factors[v]);
                for (int h = 0; h < 2; ++h) {
                    load_half_scales<kRowVectors>(head + 32 + 32 * g + 16 * h, values);
                    store(out.half_scales[g][h]);
                }
            } else if constexpr (form.factors) {
                factors.multiply(head + 64 + 16 * g, values);
                store(out.scales[g]);
                minimum_factors.multiply(head + 192 + 16 * g, values);
                store(out.minima[g]);
            } else {
                load_halves<kRowVectors>(head + 32 * g, values);
                store(out.scales[g]);
                if constexpr (form.minimum) {
                    load_halves<kRowVectors>(head + 32 * (groups + g), values);
                    store(out.minima[g]);
                }
            }
        }
    }

    template <int type> static void unpack_codes(const std::uint8_t *codes, std::int8_t (*out)[kPackedRows][4]) {
        unpack_quads<type>(codes, out, std::make_integer_sequence<int, 8>{});
    }

    template <int type, int... q>
    ANTIPHON_INLINE void unpack_quads(const std::uint8_t *codes, std::int8_t (*out)[kPackedRows][4],
                                      std::integer_sequence<int, q...>) {
        const int8x16_t zero = vdupq_n_s8(PackedFormOf<type>::form.zero);
        // Clang's vst1q_s8 is a macro, which takes neither packs nor template arguments.
        const auto store = [zero](std::int8_t *target, int8x16_t quad) { vst1q_s8(target, quad - zero); };
        for (int v = 0; v < 4; ++v) {
            (store(&out[q][4 * v][0], load_quad<type, q>(codes + 16 * v)), ...);
        }
    }

    template <int type, int tokens, bool direct>
    static void product(const std::uint8_t *, const Unpacked &unpacked, int groups, const TokenView &x, float *totals,
                        float *minima) {
        constexpr int vectors = tokens <= 2 ? 4 : 2;
        for (int row = 0; row < kPackedRows; row += 4 * vectors) {
            if constexpr (tokens == 4 && !PackedFormOf<type>::form.halves) {
                four_tokens(unpacked, row, groups, x, totals);
            } else {
                rows_product<type, tokens, vectors>(unpacked, row, groups, x, totals);
            }
        }
        if constexpr (PackedFormOf<type>::form.minimum) {
            float32x4_t total[tokens][4];
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < 4; ++v) total[t][v] = vld1q_f32(minima + t * kPackedRows + 4 * v);
            }
            for (int g = 0; g < groups; ++g) {
                float32x4_t minimum[4];
                for (int v = 0; v < 4; ++v) minimum[v] = vld1q_f32(unpacked.minima[g] + 4 * v);
                for (int t = 0; t < tokens; ++t) {
                    const float offset = x.offsets[t * x.groups + g];
                    for (int v = 0; v < 4; ++v) total[t][v] = vfmaq_n_f32(total[t][v], minimum[v], offset);
                }
            }
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < 4; ++v) vst1q_f32(minima + t * kPackedRows + 4 * v, total[t][v]);
            }
        }
    }

    static std::uint32_t largest_magnitude(const float *x) {
        const uint32x4_t mask = vdupq_n_u32(0x7FFFFFFFu);
        uint32x4_t largest = vdupq_n_u32(0);
        for (int i = 0; i < kPackedGroup; i += 4) largest = vmaxq_u32(largest, vreinterpretq_u32_f32(vld1q_f32(x + i)) & mask);
        return vmaxvq_u32(largest);
    }

    static void quantize_group(const float *x, float inverse, std::int8_t *codes, std::int16_t *half_sums) {
        for (int h = 0; h < 2; ++h) {
            int32x4_t parts[4];
            for (int i = 0; i < 4; ++i) parts[i] = vcvtnq_s32_f32(vld1q_f32(x + 16 * h + 4 * i) * inverse);
            const int16x8_t low = vcombine_s16(vmovn_s32(parts[0]), vmovn_s32(parts[1]));
            const int16x8_t high = vcombine_s16(vmovn_s32(parts[2]), vmovn_s32(parts[3]));
            vst1q_s8(codes + 16 * h, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
            half_sums[h] = vaddvq_s16(low + high);
        }
    }
};

}  // namespace

namespace dotprod {
extern const PackedKernels packed;
const PackedKernels packed = {quantize_tokens<DotProduct>, multiply_packed<DotProduct>, packed_scratch_bytes};
}  // namespace dotprod

}  // namespace antiphon
