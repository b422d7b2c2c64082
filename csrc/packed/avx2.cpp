// Packed product for x86 processors with AVX2: unsigned codes times signed x, summed in 16 bits while the sums fit.

#include <immintrin.h>

#include <utility>

#include "packed/driver.h"

namespace antiphon {
namespace {

// Loads eight rows of quad q, from whose codes `zero` is not subtracted yet.
template <int type, int q> ANTIPHON_INLINE __m256i load_quad(const std::uint8_t *codes) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    const auto load = [&](int offset) __attribute__((always_inline)) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(codes + offset));
    };
    if constexpr (form.bits == 8) return load(64 * q);
    const __m256i low = _mm256_set1_epi8(15), nibbles = load(64 * (q % 4));
    __m256i quad = _mm256_and_si256(q < 4 ? nibbles : _mm256_srli_epi16(nibbles, 4), low);
    if constexpr (form.bits == 5) {
        const __m256i high = load(256);
        const __m256i moved = q < 4 ? _mm256_slli_epi16(high, q < 4 ? 4 - q : 0) : _mm256_srli_epi16(high, q < 4 ? 0 : q - 4);
        quad = _mm256_or_si256(quad, _mm256_and_si256(moved, _mm256_set1_epi8(16)));
    }
    if constexpr (form.bits == 6) {
        constexpr int i = q % 4;
        const __m256i high = load(256 + 64 * (q / 4));
        const __m256i moved = i < 2 ? _mm256_slli_epi16(high, i < 2 ? 4 - 2 * i : 0) : _mm256_srli_epi16(high, i < 2 ? 0 : 2 * i - 4);
        quad = _mm256_or_si256(quad, _mm256_and_si256(moved, _mm256_set1_epi8(48)));
    }
    return quad;
}

// Number of quads whose summed products of codes and x fit in 16 bits: 2 * 127 * largest code * quads < 2^15.
template <int type> constexpr int fitting_quads() {
    switch (PackedFormOf<type>::form.bits) {
    case 4: return 8;
    case 5: return 4;
    case 6: return 2;
    default: return 1;
    }
}

// Sums four products by pairs, in 16 bits. The sign of signed codes is moved to x: |code| is at most 128.
template <int type> ANTIPHON_INLINE __m256i pair_sums(__m256i weights, __m256i x) {
    if constexpr (PackedFormOf<type>::form.bits == 8) {
        return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
    }
    return _mm256_maddubs_epi16(weights, x);
}

ANTIPHON_INLINE __m256i splat_quad(const std::int8_t *x) {
    std::int32_t quad;
    std::memcpy(&quad, x, sizeof quad);
    return _mm256_set1_epi32(quad);
}

// Adds the products of quads `first` + i... of `vectors` times eight rows with some tokens to the sums in 32 bits.
template <int type, int tokens, int vectors, bool direct, int first, int... i>
ANTIPHON_INLINE void some_quads(const std::uint8_t *codes, const std::int8_t *x, std::int64_t x_stride,
                                __m256i (&sums)[tokens][vectors], std::integer_sequence<int, i...>) {
    __m256i narrow[tokens][vectors];
    const auto quad = [&](auto index) __attribute__((always_inline)) {
        constexpr int q = first + decltype(index)::value;
        __m256i weights[vectors];
        for (int v = 0; v < vectors; ++v) {
            if constexpr (direct) {
                weights[v] = load_quad<type, q>(codes + 32 * v);
            } else {
                weights[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(codes + 64 * q + 32 * v));
            }
        }
        for (int t = 0; t < tokens; ++t) {
            const __m256i values = splat_quad(x + t * x_stride + 4 * q);
            for (int v = 0; v < vectors; ++v) {
                const __m256i pairs = pair_sums<type>(weights[v], values);
                narrow[t][v] = q == first ? pairs : _mm256_add_epi16(narrow[t][v], pairs);
            }
        }
    };
    (quad(std::integral_constant<int, i>{}), ...);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < vectors; ++v) sums[t][v] = _mm256_add_epi32(sums[t][v], _mm256_madd_epi16(narrow[t][v], ones));
    }
}

// Adds the products of quads [first, last) to the sums.
template <int type, int tokens, int vectors, bool direct, int first, int last>
ANTIPHON_INLINE void quads(const std::uint8_t *codes, const std::int8_t *x, std::int64_t x_stride,
                           __m256i (&sums)[tokens][vectors]) {
    constexpr int fitting = fitting_quads<type>() < last - first ? fitting_quads<type>() : last - first;
    some_quads<type, tokens, vectors, direct, first>(codes, x, x_stride, sums, std::make_integer_sequence<int, fitting>{});
    if constexpr (first + fitting < last) {
        quads<type, tokens, vectors, direct, first + fitting, last>(codes, x, x_stride, sums);
    }
}

// Multiplies all groups of a block for `vectors` times eight rows.
template <int type, int tokens, int vectors, bool direct>
ANTIPHON_INLINE void rows_product(const std::uint8_t *codes, const Unpacked &unpacked, int first_row, int groups,
                                  const TokenView &x, float *totals) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    const std::size_t code_bytes = direct ? form.code_bytes() : sizeof unpacked.codes[0];
    codes = (direct ? codes : reinterpret_cast<const std::uint8_t *>(unpacked.codes)) + 4 * first_row;
    __m256 total[tokens][vectors];
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < vectors; ++v) total[t][v] = _mm256_loadu_ps(totals + t * kPackedRows + first_row + 8 * v);
    }
    for (int g = 0; g < groups; ++g) {
        const std::int8_t *const values = x.codes + g * kPackedGroup;
        __m256i sums[tokens][vectors];
        __m256 exact[tokens][vectors];
        const auto begin = [&](int h) __attribute__((always_inline)) {
            for (int t = 0; t < tokens; ++t) {
                int first = 0;
                if (form.zero) {
                    const std::int16_t *const half_sums = x.half_sums + (t * x.groups + g) * 2;
                    first = -form.zero * (form.halves ? half_sums[h] : half_sums[0] + half_sums[1]);
                }
                for (int v = 0; v < vectors; ++v) sums[t][v] = _mm256_set1_epi32(first);
            }
        };
        begin(0);
        if constexpr (form.halves) {
            __m256 whole[tokens][vectors];
            quads<type, tokens, vectors, direct, 0, 4>(codes, values, x.stride, sums);
            for (int v = 0; v < vectors; ++v) {
                const __m256 scale = _mm256_loadu_ps(unpacked.half_scales[g][0] + first_row + 8 * v);
                for (int t = 0; t < tokens; ++t) whole[t][v] = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[t][v]), scale);
            }
            begin(1);
            quads<type, tokens, vectors, direct, 4, 8>(codes, values, x.stride, sums);
            for (int v = 0; v < vectors; ++v) {
                const __m256 scale = _mm256_loadu_ps(unpacked.half_scales[g][1] + first_row + 8 * v);
                for (int t = 0; t < tokens; ++t) {
                    exact[t][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[t][v]), scale, whole[t][v]);
                }
            }
        } else {
            quads<type, tokens, vectors, direct, 0, 8>(codes, values, x.stride, sums);
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < vectors; ++v) exact[t][v] = _mm256_cvtepi32_ps(sums[t][v]);
            }
        }
        codes += code_bytes;
        for (int t = 0; t < tokens; ++t) {
            const __m256 x_scale = _mm256_set1_ps(x.scales[t * x.groups + g]);
            for (int v = 0; v < vectors; ++v) {
                const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(unpacked.scales[g] + first_row + 8 * v), x_scale);
                total[t][v] = _mm256_fmadd_ps(exact[t][v], scale, total[t][v]);
            }
        }
    }
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < vectors; ++v) _mm256_storeu_ps(totals + t * kPackedRows + first_row + 8 * v, total[t][v]);
    }
}

ANTIPHON_INLINE __m256 load_eight_halves(const std::uint8_t *source) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(source)));
}
ANTIPHON_INLINE __m128i load_eight_bytes(const std::uint8_t *source) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(source));
}

struct Avx2 {
    static constexpr int kMicroTokens = 4, kDirectTokens = 4;
    struct Session {};
    static constexpr bool kFetchesGroups = false;
    template <int> static constexpr int kFewTokens = 0;

    template <int type> static void read_head(const std::uint8_t *head, int groups, Unpacked &out) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        for (int r = 0; r < kPackedRows; r += 8) {
            if constexpr (form.halves) {
                const __m256 factor = load_eight_halves(head + 2 * r);
                for (int g = 0; g < groups; ++g) {
                    _mm256_storeu_ps(out.scales[g] + r, factor);
                    for (int h = 0; h < 2; ++h) {
                        const __m256i scales = _mm256_cvtepi8_epi32(load_eight_bytes(head + 32 + 32 * g + 16 * h + r));
                        _mm256_storeu_ps(out.half_scales[g][h] + r, _mm256_cvtepi32_ps(scales));
                    }
                }
            } else if constexpr (form.factors) {
                const __m256 factor = load_eight_halves(head + 2 * r);
                const __m256 minimum_factor = _mm256_xor_ps(load_eight_halves(head + 32 + 2 * r), _mm256_set1_ps(-0.0f));
                const auto scaled = [](const std::uint8_t *bytes, __m256 by) __attribute__((always_inline)) {
                    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_eight_bytes(bytes))), by);
                };
                for (int g = 0; g < groups; ++g) {
                    _mm256_storeu_ps(out.scales[g] + r, scaled(head + 64 + 16 * g + r, factor));
                    _mm256_storeu_ps(out.minima[g] + r, scaled(head + 192 + 16 * g + r, minimum_factor));
                }
            } else {
                for (int g = 0; g < groups; ++g) {
                    _mm256_storeu_ps(out.scales[g] + r, load_eight_halves(head + 32 * g + 2 * r));
                    if constexpr (form.minimum) {
                        _mm256_storeu_ps(out.minima[g] + r, load_eight_halves(head + 32 * (groups + g) + 2 * r));
                    }
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
        for (int v = 0; v < 2; ++v) {
            (_mm256_storeu_si256(reinterpret_cast<__m256i *>(&out[q][8 * v][0]), load_quad<type, q>(codes + 32 * v)), ...);
        }
    }

    template <int type, int tokens, bool direct>
    static void product(const std::uint8_t *codes, const Unpacked &unpacked, int groups, const TokenView &x, float *totals,
                        float *minima) {
        constexpr int vectors = tokens <= 2 ? 2 : 1;
        for (int row = 0; row < kPackedRows; row += 8 * vectors) {
            rows_product<type, tokens, vectors, direct>(codes, unpacked, row, groups, x, totals);
        }
        if constexpr (PackedFormOf<type>::form.minimum) {
            __m256 total[tokens][2];
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < 2; ++v) total[t][v] = _mm256_loadu_ps(minima + t * kPackedRows + 8 * v);
            }
            for (int g = 0; g < groups; ++g) {
                const __m256 low = _mm256_loadu_ps(unpacked.minima[g]), high = _mm256_loadu_ps(unpacked.minima[g] + 8);
                for (int t = 0; t < tokens; ++t) {
                    const __m256 offset = _mm256_set1_ps(x.offsets[t * x.groups + g]);
                    total[t][0] = _mm256_fmadd_ps(low, offset, total[t][0]);
                    total[t][1] = _mm256_fmadd_ps(high, offset, total[t][1]);
                }
            }
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < 2; ++v) _mm256_storeu_ps(minima + t * kPackedRows + 8 * v, total[t][v]);
            }
        }
    }

    static std::uint32_t largest_magnitude(const float *x) {
        const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
        __m256i largest = _mm256_setzero_si256();
        for (int i = 0; i < kPackedGroup; i += 8) {
            largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)), mask));
        }
        __m128i four = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
        four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
        four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xB1));
        return std::uint32_t(_mm_cvtsi128_si32(four));
    }

    static void quantize_group(const float *x, float inverse, std::int8_t *codes, std::int16_t *half_sums) {
        const __m256 factor = _mm256_set1_ps(inverse);
        __m256i words[2];
        for (int h = 0; h < 2; ++h) {
            const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16 * h), factor));
            const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16 * h + 8), factor));
            words[h] = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
            const __m256i pairs = _mm256_madd_epi16(words[h], _mm256_set1_epi16(1));
            __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
            half_sums[h] = std::int16_t(_mm_cvtsi128_si32(four));
        }
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(words[0], words[1]), 0xD8);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(codes), bytes);
    }
};

}  // namespace

namespace avx2 {
extern const PackedKernels packed;
const PackedKernels packed = {quantize_tokens<Avx2>, multiply_packed<Avx2>, packed_scratch_bytes};
}  // namespace avx2

}  // namespace antiphon
