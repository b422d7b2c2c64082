// Packed product in plain C++, for any processor; the other variants are compared with this one.

#include <cmath>

#include "packed/driver.h"

namespace antiphon {
namespace {

struct Portable {
    static constexpr int kMicroTokens = 4, kDirectTokens = 4;
    struct Session {};
    static constexpr bool kFetchesGroups = false;
    template <int> static constexpr int kFewTokens = 0;

    template <int type> static void read_head(const std::uint8_t *head, int groups, Unpacked &out) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        for (int g = 0; g < groups; ++g) {
            for (int r = 0; r < kPackedRows; ++r) {
                if (form.halves) {
                    out.scales[g][r] = half_to_float(head + 2 * r);
                    for (int h = 0; h < 2; ++h) out.half_scales[g][h][r] = float(std::int8_t(head[32 + 32 * g + 16 * h + r]));
                } else if (form.factors) {
                    out.scales[g][r] = half_to_float(head + 2 * r) * float(head[64 + 16 * g + r]);
                    out.minima[g][r] = -(half_to_float(head + 32 + 2 * r) * float(head[192 + 16 * g + r]));
                } else {
                    out.scales[g][r] = half_to_float(head + 32 * g + 2 * r);
                    if (form.minimum) out.minima[g][r] = half_to_float(head + 32 * (groups + g) + 2 * r);
                }
            }
        }
    }

    template <int type> static void unpack_codes(const std::uint8_t *codes, std::int8_t (*out)[kPackedRows][4]) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        for (int q = 0; q < 8; ++q) {
            std::int8_t *const target = &out[q][0][0];
            for (int i = 0; i < 4 * kPackedRows; ++i) {
                if (form.bits == 8) {
                    target[i] = std::int8_t(codes[64 * q + i]);
                    continue;
                }
                int code = codes[64 * (q % 4) + i] >> (q / 4 * 4) & 15;
                if (form.bits == 5) code |= (codes[256 + i] >> q & 1) << 4;
                if (form.bits == 6) code |= (codes[256 + 64 * (q / 4) + i] >> (q % 4 * 2) & 3) << 4;
                target[i] = std::int8_t(code - form.zero);
            }
        }
    }

    template <int type, int tokens, bool direct>
    static void product(const std::uint8_t *codes, const Unpacked &unpacked, int groups, const TokenView &x, float *totals,
                        float *minima) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        for (int g = 0; g < groups; ++g) {
            std::int8_t own[8][kPackedRows][4];
            if (direct) unpack_codes<type>(codes + g * form.code_bytes(), own);
            const std::int8_t(*const weights)[kPackedRows][4] = direct ? own : unpacked.codes[g];
            for (int t = 0; t < tokens; ++t) {
                const std::int8_t *const values = x.codes + t * x.stride + g * kPackedGroup;
                std::int32_t halves[2][kPackedRows] = {};
                for (int q = 0; q < 8; ++q) {
                    for (int r = 0; r < kPackedRows; ++r) {
                        for (int c = 0; c < 4; ++c) halves[q / 4][r] += weights[q][r][c] * values[4 * q + c];
                    }
                }
                const float scale = x.scales[t * x.groups + g], offset = x.offsets[t * x.groups + g];
                for (int r = 0; r < kPackedRows; ++r) {
                    const float exact = form.halves ? float(halves[0][r]) * unpacked.half_scales[g][0][r] +
                                                          float(halves[1][r]) * unpacked.half_scales[g][1][r]
                                                    : float(halves[0][r] + halves[1][r]);
                    float &total = totals[t * kPackedRows + r], &least = minima[t * kPackedRows + r];
                    total = std::fma(exact, unpacked.scales[g][r] * scale, total);
                    if (form.minimum) least = std::fma(unpacked.minima[g][r], offset, least);
                }
            }
        }
    }

    static std::uint32_t largest_magnitude(const float *x) {
        std::uint32_t largest = 0;
        for (int i = 0; i < kPackedGroup; ++i) {
            const std::uint32_t magnitude = float_to_bits(x[i]) & 0x7FFFFFFFu;
            if (magnitude > largest) largest = magnitude;
        }
        return largest;
    }

    static void quantize_group(const float *x, float inverse, std::int8_t *codes, std::int16_t *half_sums) {
        for (int h = 0; h < 2; ++h) {
            int sum = 0;
            for (int i = 16 * h; i < 16 * h + 16; ++i) {
                // The low bits of the sum with 1.5 * 2^23 are the value rounded to the nearest integer.
                const int code = int(float_to_bits(x[i] * inverse + 12582912.0f) - 0x4B400000u);
                codes[i] = std::int8_t(code);
                sum += code;
            }
            half_sums[h] = std::int16_t(sum);
        }
    }
};

}  // namespace

namespace portable {
extern const PackedKernels packed;
const PackedKernels packed = {quantize_tokens<Portable>, multiply_packed<Portable>, packed_scratch_bytes};
}  // namespace portable

}  // namespace antiphon
