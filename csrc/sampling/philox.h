// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011), for several
// counters at once, with the same bits as ops/reference/philox.py.

#pragma once

#include "base/vector.h"

namespace {

typedef std::uint32_t Words __attribute__((vector_size(sizeof(Lanes))));
constexpr int kWords = sizeof(Words) / sizeof(std::uint32_t);

// Upper and lower halves of 64-bit products.
ANTIPHON_INLINE void multiply_words(Words a, std::uint32_t factor, Words &high, Words &low) {
#if defined(__AVX2__)
    const __m256i factors = _mm256_set1_epi32(int(factor));
    const __m256i even = _mm256_mul_epu32((__m256i)a, factors);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), factors);
    low = (Words)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    high = (Words)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
#elif defined(__aarch64__)
    const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32((uint32x4_t)a), vdup_n_u32(factor)));
    const uint32x4_t second = vreinterpretq_u32_u64(vmull_high_u32((uint32x4_t)a, vdupq_n_u32(factor)));
    low = (Words)vuzp1q_u32(first, second);
    high = (Words)vuzp2q_u32(first, second);
#else
    for (int lane = 0; lane < kWords; ++lane) {
        const std::uint64_t product = std::uint64_t(a[lane]) * factor;
        low[lane] = std::uint32_t(product);
        high[lane] = std::uint32_t(product >> 32);
    }
#endif
}

// Stores the four words of each counter, counter after counter.
ANTIPHON_INLINE void store_counters(const Words (&words)[4], std::uint32_t *out) {
#if defined(__aarch64__)
    vst4q_u32(out, (uint32x4x4_t{{(uint32x4_t)words[0], (uint32x4_t)words[1], (uint32x4_t)words[2], (uint32x4_t)words[3]}}));
#elif defined(__AVX2__)
    const __m256i a = _mm256_unpacklo_epi32((__m256i)words[0], (__m256i)words[1]);
    const __m256i b = _mm256_unpackhi_epi32((__m256i)words[0], (__m256i)words[1]);
    const __m256i c = _mm256_unpacklo_epi32((__m256i)words[2], (__m256i)words[3]);
    const __m256i d = _mm256_unpackhi_epi32((__m256i)words[2], (__m256i)words[3]);
    const __m256i rows[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                             _mm256_unpackhi_epi64(b, d)};  // counters 0 and 4, 1 and 5, 2 and 6, 3 and 7
    __m128i *target = reinterpret_cast<__m128i *>(out);
    for (int i = 0; i < 4; ++i) {
        _mm_storeu_si128(target + i, _mm256_castsi256_si128(rows[i]));
        _mm_storeu_si128(target + 4 + i, _mm256_extracti128_si256(rows[i], 1));
    }
#else
    for (int lane = 0; lane < kWords; ++lane) {
        for (int w = 0; w < 4; ++w) out[4 * lane + w] = words[w][lane];
    }
#endif
}

// Generates `count` words from the counters (first, index, 0), (first + 1, index, 0) and so on with the key `seed`.
template <int count>
ANTIPHON_INLINE void philox_group(std::uint64_t seed, std::uint64_t index, std::uint32_t first, std::uint32_t *out) {
    constexpr int vectors = count / 4 / kWords;
    static_assert(vectors * kWords * 4 == count, "whole vectors of counters");
    Words state[vectors][4];
    for (int v = 0; v < vectors; ++v) {
        for (int lane = 0; lane < kWords; ++lane) state[v][0][lane] = first + std::uint32_t(v * kWords + lane);
        state[v][1] = Words{} + std::uint32_t(index);
        state[v][2] = Words{} + std::uint32_t(index >> 32);
        state[v][3] = Words{};
    }
    std::uint32_t key[2] = {std::uint32_t(seed), std::uint32_t(seed >> 32)};
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            Words high0, low0, high1, low1;
            multiply_words(state[v][0], 0xD2511F53u, high0, low0);
            multiply_words(state[v][2], 0xCD9E8D57u, high1, low1);
            state[v][0] = high1 ^ state[v][1] ^ key[0];
            state[v][1] = low1;
            state[v][2] = high0 ^ state[v][3] ^ key[1];
            state[v][3] = low0;
        }
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    for (int v = 0; v < vectors; ++v) store_counters(state[v], out + v * kWords * 4);
}

}  // namespace
