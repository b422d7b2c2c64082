// One token on ARM processors with the dot product instructions: a tile's totals stay in registers from its first group to
// its last, and scales are converted to floats where they are used. Nothing is stored: memory bandwidth should be the only limit.

#pragma once

#include <arm_neon.h>

#include <type_traits>

#include "packed/driver.h"

namespace antiphon {
namespace {

constexpr int kRowVectors = 4;       // of four rows each

// As bits 1.5 * 2^23, to which an int of less than 2^22 can be added in place.
constexpr std::int32_t kMagicBits = 0x4B400000;
constexpr float kMagic = 12582912.0f;

ANTIPHON_INLINE void load_halves_16(const std::uint8_t *source, float32x4_t *out) {
    const float16x8_t low = vreinterpretq_f16_u8(vld1q_u8(source)), high = vreinterpretq_f16_u8(vld1q_u8(source + 16));
    out[0] = vcvt_f32_f16(vget_low_f16(low));
    out[1] = vcvt_high_f32_f16(low);
    out[2] = vcvt_f32_f16(vget_low_f16(high));
    out[3] = vcvt_high_f32_f16(high);
}

// Sixteen bytes as floats. With 0x4B00 above a 16-bit number the bits are those of 2^23 + number; subtracting 2^23
// is twice as fast as a conversion.
ANTIPHON_INLINE void wide_to_floats(uint16x8_t low, uint16x8_t high, float base, float32x4_t *out) {
    const uint16x8_t exponent = vdupq_n_u16(0x4B00);
    const float32x4_t offset = vdupq_n_f32(base);
    out[0] = vreinterpretq_f32_u16(vzip1q_u16(low, exponent)) - offset;
    out[1] = vreinterpretq_f32_u16(vzip2q_u16(low, exponent)) - offset;
    out[2] = vreinterpretq_f32_u16(vzip1q_u16(high, exponent)) - offset;
    out[3] = vreinterpretq_f32_u16(vzip2q_u16(high, exponent)) - offset;
}
ANTIPHON_INLINE void bytes_to_floats(uint8x16_t bytes, float32x4_t *out) {
    wide_to_floats(vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes), 8388608.0f, out);
}
ANTIPHON_INLINE void signed_bytes_to_floats(uint8x16_t bytes, float32x4_t *out) {
    const uint8x16_t shifted = bytes ^ 0x80;  // 128 more
    wide_to_floats(vmovl_u8(vget_low_u8(shifted)), vmovl_high_u8(shifted), 8388608.0f + 128, out);
}

// Sums over half of a group: quads 4 * half + 0..3 with the lanes of x.
template <int type, int half> ANTIPHON_INLINE void half_sums_one(const std::uint8_t *codes, int8x16_t x, int32x4_t *sums) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    const auto quad = [&](auto index) __attribute__((always_inline)) {
        constexpr int i = decltype(index)::value;
#pragma GCC unroll 4
        for (int v = 0; v < kRowVectors; ++v) {
            int8x16_t weights;
            if constexpr (form.bits == 8) {
                weights = vreinterpretq_s8_u8(vld1q_u8(codes + 64 * (4 * half + i) + 16 * v));
            } else {
                const uint8x16_t nibbles = vld1q_u8(codes + 64 * i + 16 * v);
                uint8x16_t values = half ? nibbles >> 4 : nibbles & 15;
                if constexpr (form.bits == 6) {
                    const uint8x16_t high = vld1q_u8(codes + 256 + 64 * half + 16 * v);
                    values |= (i < 2 ? high << (i < 2 ? 4 - 2 * i : 0) : high >> (i < 2 ? 0 : 2 * i - 4)) & 48;
                }
                weights = vreinterpretq_s8_u8(values);
            }
            sums[v] = vdotq_laneq_s32(sums[v], weights, x, i);
        }
    };
    quad(std::integral_constant<int, 0>{});
    quad(std::integral_constant<int, 1>{});
    quad(std::integral_constant<int, 2>{});
    quad(std::integral_constant<int, 3>{});
}

// The sum of x over the fifth bits of a group, negated: a test of a bit gives -1 or 0.
template <int half> ANTIPHON_INLINE void fifth_bit_sums(const uint8x16_t *planes, int8x16_t x, int32x4_t *sums) {
    const auto quad = [&](auto index) __attribute__((always_inline)) {
        constexpr int i = decltype(index)::value;
        const uint8x16_t bit = vdupq_n_u8(std::uint8_t(1 << (4 * half + i)));
#pragma GCC unroll 4
        for (int v = 0; v < kRowVectors; ++v) {
            sums[v] = vdotq_laneq_s32(sums[v], vreinterpretq_s8_u8(vtstq_u8(planes[v], bit)), x, i);
        }
    };
    quad(std::integral_constant<int, 0>{});
    quad(std::integral_constant<int, 1>{});
    quad(std::integral_constant<int, 2>{});
    quad(std::integral_constant<int, 3>{});
}

// float(I) of a group for sixteen rows; of Q6_K, through floats, which are exact here, with scales of its halves at `scales`.
template <int type>
ANTIPHON_INLINE void group_sums_one(const std::uint8_t *codes, const std::uint8_t *scales, const std::int8_t *x,
                                    const std::int16_t *half_sums, float32x4_t *out) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    const int8x16_t low = vld1q_s8(x), high = vld1q_s8(x + 16);
    const float32x4_t magic = vdupq_n_f32(kMagic);
    int32x4_t sums[kRowVectors];
    const auto begin = [&](int taken) __attribute__((always_inline)) {
        for (int v = 0; v < kRowVectors; ++v) sums[v] = vdupq_n_s32(kMagicBits - form.zero * taken);
    };
    if constexpr (form.halves) {
        float32x4_t factors[kRowVectors];
        begin(half_sums[0]);
        half_sums_one<type, 0>(codes, low, sums);
        signed_bytes_to_floats(vld1q_u8(scales), factors);
        for (int v = 0; v < kRowVectors; ++v) out[v] = (vreinterpretq_f32_s32(sums[v]) - magic) * factors[v];
        begin(half_sums[1]);
        half_sums_one<type, 1>(codes, high, sums);
        signed_bytes_to_floats(vld1q_u8(scales + 16), factors);
        for (int v = 0; v < kRowVectors; ++v) {
            out[v] = vfmaq_f32(out[v], vreinterpretq_f32_s32(sums[v]) - magic, factors[v]);
        }
        return;
    }
    begin(half_sums[0] + half_sums[1]);
    half_sums_one<type, 0>(codes, low, sums);
    half_sums_one<type, 1>(codes, high, sums);
    if constexpr (form.bits == 5) {
        uint8x16_t planes[kRowVectors];
        int32x4_t bits[kRowVectors];
        for (int v = 0; v < kRowVectors; ++v) {
            planes[v] = vld1q_u8(codes + 256 + 16 * v);
            bits[v] = vdupq_n_s32(0);
        }
        fifth_bit_sums<0>(planes, low, bits);
        fifth_bit_sums<1>(planes, high, bits);
        for (int v = 0; v < kRowVectors; ++v) sums[v] -= bits[v] << 4;
    }
    for (int v = 0; v < kRowVectors; ++v) out[v] = vreinterpretq_f32_s32(sums[v]) - magic;
}

// A tile times one token.
template <int type> void tile_one(const std::uint8_t *tile, const Activations &x, float *y) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    float32x4_t totals[kRowVectors], minima[kRowVectors], factor[kRowVectors], minimum_factor[kRowVectors];
    for (int v = 0; v < kRowVectors; ++v) totals[v] = minima[v] = vdupq_n_f32(0);
    const std::int64_t groups = x.groups();
    for (std::int64_t first = 0; first < groups; first += kBlockGroups) {
        const int count = int(groups - first < kBlockGroups ? groups - first : kBlockGroups);
        const std::uint8_t *codes = tile + form.head_bytes(count);
        if constexpr (form.factors) load_halves_16(tile, factor);
        if constexpr (form.factors && form.minimum) {
            load_halves_16(tile + 32, minimum_factor);
            for (int v = 0; v < kRowVectors; ++v) minimum_factor[v] = -minimum_factor[v];
        }
        for (int g = 0; g < count; ++g) {
            const std::int64_t group = first + g;
            for (std::size_t i = 0; i < form.code_bytes(); i += 64) __builtin_prefetch(codes + kPrefetchBytes + i);
            float32x4_t sums[kRowVectors], scales[kRowVectors];
            group_sums_one<type>(codes, tile + 32 + 32 * g, x.codes + group * kPackedGroup, x.half_sums + 2 * group, sums);
            codes += form.code_bytes();
            if constexpr (form.halves) {
                for (int v = 0; v < kRowVectors; ++v) scales[v] = factor[v];
            } else if constexpr (form.factors) {
                bytes_to_floats(vld1q_u8(tile + 64 + 16 * g), scales);
                for (int v = 0; v < kRowVectors; ++v) scales[v] *= factor[v];
            } else {
                load_halves_16(tile + 32 * g, scales);
            }
            const float32x4_t x_scale = vld1q_dup_f32(x.scales + group);
            for (int v = 0; v < kRowVectors; ++v) totals[v] = vfmaq_f32(totals[v], sums[v], scales[v] * x_scale);
            if constexpr (form.minimum) {
                const float32x4_t offset = vld1q_dup_f32(x.offsets + group);
                if constexpr (form.factors) {
                    bytes_to_floats(vld1q_u8(tile + 192 + 16 * g), scales);
                    for (int v = 0; v < kRowVectors; ++v) scales[v] *= minimum_factor[v];
                } else {
                    load_halves_16(tile + 32 * (count + g), scales);
                }
                for (int v = 0; v < kRowVectors; ++v) minima[v] = vfmaq_f32(minima[v], scales[v], offset);
            }
        }
        tile += form.block_bytes(count);
    }
    for (int v = 0; v < kRowVectors; ++v) vst1q_f32(y + 4 * v, form.minimum ? totals[v] + minima[v] : totals[v]);
}

}  // namespace
}  // namespace antiphon
