// Packed product with 512-bit vectors: an instruction multiplies sixteen rows by a quad.
//
// The instruction takes unsigned weights, so codes stay unsigned, and 128 is added to signed codes. The excess in a sum is a
// multiple of the sum of the token's codes, and sums start from its negative.

#pragma once

#include <immintrin.h>

#include <utility>

#include "packed/driver.h"

namespace antiphon {
namespace {

// Difference between unpacked codes and their values.
template <int type> constexpr int excess = PackedFormOf<type>::form.bits == 8 ? 128 : PackedFormOf<type>::form.zero;

// Loads quads q and q + 4 of sixteen rows.
template <int type, int q> ANTIPHON_INLINE void load_quads(const std::uint8_t *codes, __m512i (&quads)[2]) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    if constexpr (form.bits == 8) {
        const __m512i sign = _mm512_set1_epi8(char(0x80));
        quads[0] = _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * q), sign);
        quads[1] = _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * (q + 4)), sign);
        return;
    }
    const __m512i nibbles = _mm512_loadu_si512(codes + 64 * q), low = _mm512_set1_epi8(15);
    quads[0] = _mm512_and_si512(nibbles, low);
    quads[1] = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low);
    if constexpr (form.bits == 5) {
        const __m512i high = _mm512_loadu_si512(codes + 256), bit = _mm512_set1_epi8(16);
        quads[0] = _mm512_or_si512(quads[0], _mm512_and_si512(_mm512_slli_epi16(high, 4 - q), bit));
        quads[1] = _mm512_or_si512(quads[1], _mm512_and_si512(_mm512_srli_epi16(high, q), bit));
    }
    if constexpr (form.bits == 6) {
        const __m512i bits = _mm512_set1_epi8(48);
        for (int h = 0; h < 2; ++h) {
            const __m512i high = _mm512_loadu_si512(codes + 256 + 64 * h);
            const __m512i moved = q < 2 ? _mm512_slli_epi16(high, q < 2 ? 4 - 2 * q : 0)
                                        : _mm512_srli_epi16(high, q < 2 ? 0 : 2 * q - 4);
            quads[h] = _mm512_or_si512(quads[h], _mm512_and_si512(moved, bits));
        }
    }
}

ANTIPHON_INLINE __m512i splat_quad(const std::int8_t *codes) {
    std::int32_t quad;
    std::memcpy(&quad, codes, sizeof quad);
    return _mm512_set1_epi32(quad);
}

struct Vnni {
    static constexpr int kMicroTokens = 8, kDirectTokens = 8;
    static constexpr bool kFetchesGroups = false;
    template <int> static constexpr int kFewTokens = 0;
    struct Session {};

    template <int type> static void read_head(const std::uint8_t *head, int groups, Unpacked &out) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        const auto halves = [](const std::uint8_t *source) {
            return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(source)));
        };
        const auto bytes = [](const std::uint8_t *source) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(source)); };
        if constexpr (form.halves) {
            const __m512 factor = halves(head);
            for (int g = 0; g < groups; ++g) {
                _mm512_storeu_ps(out.scales[g], factor);
                for (int h = 0; h < 2; ++h) {
                    const __m512i scales = _mm512_cvtepi8_epi32(bytes(head + 32 + 32 * g + 16 * h));
                    _mm512_storeu_ps(out.half_scales[g][h], _mm512_cvtepi32_ps(scales));
                }
            }
        } else if constexpr (form.factors) {
            const __m512 factor = halves(head), minimum = _mm512_sub_ps(_mm512_set1_ps(-0.0f), halves(head + 32));
            for (int g = 0; g < groups; ++g) {
                const __m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes(head + 64 + 16 * g)));
                const __m512 least = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes(head + 192 + 16 * g)));
                _mm512_storeu_ps(out.scales[g], _mm512_mul_ps(scale, factor));
                _mm512_storeu_ps(out.minima[g], _mm512_mul_ps(least, minimum));
            }
        } else {
            for (int g = 0; g < groups; ++g) {
                _mm512_storeu_ps(out.scales[g], halves(head + 32 * g));
                if constexpr (form.minimum) _mm512_storeu_ps(out.minima[g], halves(head + 32 * (groups + g)));
            }
        }
    }

    template <int type> static void unpack_codes(const std::uint8_t *codes, std::int8_t (*out)[kPackedRows][4]) {
        unpack_quads<type>(codes, out, std::make_integer_sequence<int, 4>{});
    }

    template <int type, int... q>
    ANTIPHON_INLINE void unpack_quads(const std::uint8_t *codes, std::int8_t (*out)[kPackedRows][4],
                                      std::integer_sequence<int, q...>) {
        const auto pair = [&](auto index) __attribute__((always_inline)) {
            constexpr int first = decltype(index)::value;
            __m512i quads[2];
            load_quads<type, first>(codes, quads);
            _mm512_storeu_si512(out[first], quads[0]);
            _mm512_storeu_si512(out[first + 4], quads[1]);
        };
        (pair(std::integral_constant<int, q>{}), ...);
    }

    template <int type, int tokens, bool direct>
    static void product(const std::uint8_t *codes, const Unpacked &unpacked, int groups, const TokenView &x, float *totals,
                        float *minima) {
        multiply<type, tokens, direct>(codes, unpacked, groups, x, totals, std::make_integer_sequence<int, 4>{});
        if constexpr (PackedFormOf<type>::form.minimum) add_minima<tokens>(unpacked, groups, x, minima);
    }

    template <int tokens> static void add_minima(const Unpacked &unpacked, int groups, const TokenView &x, float *minima) {
        __m512 least[tokens];
#pragma GCC unroll 16
        for (int t = 0; t < tokens; ++t) least[t] = _mm512_loadu_ps(minima + t * kPackedRows);
        for (int g = 0; g < groups; ++g) {
            const __m512 minimum = _mm512_load_ps(unpacked.minima[g]);
#pragma GCC unroll 16
            for (int t = 0; t < tokens; ++t) {
                least[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(x.offsets[t * x.groups + g]), least[t]);
            }
        }
#pragma GCC unroll 16
        for (int t = 0; t < tokens; ++t) _mm512_storeu_ps(minima + t * kPackedRows, least[t]);
    }

    template <int type, int tokens, bool direct, int... q>
    ANTIPHON_INLINE void multiply(const std::uint8_t *codes, const Unpacked &unpacked, int groups, const TokenView &x,
                                  float *totals, std::integer_sequence<int, q...>) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        // Sums of a group's two halves; for few tokens even where one would do, since additions to one sum form a chain.
        constexpr int chains = form.halves || tokens < 6 ? 2 : 1;
        __m512 total[tokens];
        for (int t = 0; t < tokens; ++t) total[t] = _mm512_loadu_ps(totals + t * kPackedRows);
        for (int g = 0; g < groups; ++g) {
            __m512i sums[tokens][chains];
            for (int t = 0; t < tokens; ++t) {
                const std::int16_t *const half_sums = x.half_sums + (t * x.groups + g) * 2;
                for (int c = 0; c < chains; ++c) {
                    const int sum = chains == 2 ? half_sums[c] : half_sums[0] + half_sums[1];
                    sums[t][c] = excess<type> ? _mm512_set1_epi32(-excess<type> * sum) : _mm512_setzero_si512();
                }
            }
            const auto pair = [&](auto index) __attribute__((always_inline)) {
                constexpr int first = decltype(index)::value;
                __m512i quads[2];
                if constexpr (direct) {
                    load_quads<type, first>(codes + g * form.code_bytes(), quads);
                } else {
                    quads[0] = _mm512_load_si512(unpacked.codes[g][first]);
                    quads[1] = _mm512_load_si512(unpacked.codes[g][first + 4]);
                }
                const std::int8_t *const values = x.codes + g * kPackedGroup + 4 * first;
#pragma GCC unroll 16
                for (int t = 0; t < tokens; ++t) {
                    sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], quads[0], splat_quad(values + t * x.stride));
                }
#pragma GCC unroll 16
                for (int t = 0; t < tokens; ++t) {
                    __m512i &sum = sums[t][chains - 1];
                    sum = _mm512_dpbusd_epi32(sum, quads[1], splat_quad(values + t * x.stride + 16));
                }
            };
            (pair(std::integral_constant<int, q>{}), ...);
            const __m512 scale = _mm512_load_ps(unpacked.scales[g]);
#pragma GCC unroll 16
            for (int t = 0; t < tokens; ++t) {
                __m512 whole;
                if constexpr (form.halves) {
                    const __m512 first = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[t][0]), _mm512_load_ps(unpacked.half_scales[g][0]));
                    whole = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][1]), _mm512_load_ps(unpacked.half_scales[g][1]), first);
                } else if constexpr (chains == 2) {
                    whole = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[t][0], sums[t][1]));
                } else {
                    whole = _mm512_cvtepi32_ps(sums[t][0]);
                }
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[t * x.groups + g]));
                total[t] = _mm512_fmadd_ps(whole, both, total[t]);
            }
        }
        for (int t = 0; t < tokens; ++t) _mm512_storeu_ps(totals + t * kPackedRows, total[t]);
    }

    static std::uint32_t largest_magnitude(const float *x) {
        const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
        const __m512i low = _mm512_and_si512(_mm512_loadu_si512(x), mask);
        const __m512i high = _mm512_and_si512(_mm512_loadu_si512(x + 16), mask);
        return _mm512_reduce_max_epu32(_mm512_max_epu32(low, high));
    }

    static void quantize_group(const float *x, float inverse, std::int8_t *codes, std::int16_t *half_sums) {
        for (int h = 0; h < 2; ++h) {
            const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * h), _mm512_set1_ps(inverse));
            const __m512i whole = _mm512_cvtps_epi32(scaled);
            _mm_storeu_si128(reinterpret_cast<__m128i *>(codes + 16 * h), _mm512_cvtsepi32_epi8(whole));
            half_sums[h] = std::int16_t(_mm512_reduce_add_epi32(whole));
        }
    }
};

}  // namespace
}  // namespace antiphon
