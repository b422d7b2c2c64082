// Packed product of up to four tokens on ARM processors with dot product instructions. Weights are unpacked and scales
// converted in registers and used there, and totals stay in registers.
//
// Vector arithmetic is the limit, so loads replace it where possible: sums start from memory, and tokens' scales are lanes
// of scalar loads. Copying a register, or filling it from a general register, would take a slot of the arithmetic.

#pragma once

#include <arm_neon.h>

#include <type_traits>

#include "packed/driver.h"

namespace antiphon {
namespace {

constexpr std::size_t kAheadBytes = 12288;  // distance of prefetched from multiplied bytes
constexpr std::int64_t kChunkGroups = 8 * kBlockGroups;  // groups of a tile that stay in the first-level cache for all passes

// Bits of 1.5 * 2^23 as a float, to which an int of less than 2^22 can be added in place.
constexpr std::int32_t kMagicBits = 0x4B400000;
constexpr float kMagic = 12582912.0f;
alignas(16) constexpr std::int32_t kMagicStart[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
// 2^23, whose bits have room for a byte.
constexpr std::uint16_t kByteExponent = 0x4B00;
constexpr float kByteBase = 8388608.0f;

// Loads four numbers, so that the compiler does not copy a register that holds them.
ANTIPHON_INLINE int32x4_t reload(const std::int32_t *source) {
    int32x4_t value;
    asm volatile("ldr %q0, %1" : "=w"(value) : "Q"(*reinterpret_cast<const int32x4_t *>(source)));
    return value;
}
ANTIPHON_INLINE float32x4_t reload(const float *source) {
    float32x4_t value;
    asm volatile("ldr %q0, %1" : "=w"(value) : "Q"(*reinterpret_cast<const float32x4_t *>(source)));
    return value;
}
// Fills a vector with a number. Repeated calls are not merged: a second fill is as fast as a copy of the first.
ANTIPHON_INLINE int32x4_t spread(std::int32_t number) {
    int32x4_t value;
    asm volatile("dup %0.4s, %w1" : "=w"(value) : "r"(number));
    return value;
}

// Converts a sum that started at kMagicBits: its bits are those of 1.5 * 2^23 + sum as a float.
ANTIPHON_INLINE float32x4_t to_float(int32x4_t sum) { return vreinterpretq_f32_s32(sum) - vdupq_n_f32(kMagic); }

// Computes the floats 2^23 + byte of 4 * vectors bytes; reads at least eight bytes.
template <int vectors> ANTIPHON_INLINE void raise_bytes(const std::uint8_t *bytes, std::uint8_t flipped, float32x4_t *out) {
    const uint16x8_t exponent = vdupq_n_u16(kByteExponent);
    const uint8x16_t zeros = vdupq_n_u8(0);
    uint8x16_t all = vectors == 4 ? vld1q_u8(bytes) : vcombine_u8(vld1_u8(bytes), vdup_n_u8(0));
    if (flipped) all ^= flipped;
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(all, zeros));
    out[0] = vreinterpretq_f32_u16(vzip1q_u16(low, exponent));
    out[1] = vreinterpretq_f32_u16(vzip2q_u16(low, exponent));
    if constexpr (vectors == 4) {
        const uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(all, zeros));
        out[2] = vreinterpretq_f32_u16(vzip1q_u16(high, exponent));
        out[3] = vreinterpretq_f32_u16(vzip2q_u16(high, exponent));
    }
}

template <int vectors> ANTIPHON_INLINE void load_halves(const std::uint8_t *source, float32x4_t *out) {
    for (int v = 0; v < vectors; ++v) out[v] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(source + 8 * v)));
}

// Loads the scales of Q6_K: signed bytes, which are 128 larger with the sign bit flipped.
template <int vectors> ANTIPHON_INLINE void load_half_scales(const std::uint8_t *bytes, float32x4_t *out) {
    raise_bytes<vectors>(bytes, 0x80, out);
    for (int v = 0; v < vectors; ++v) out[v] -= vdupq_n_f32(kByteBase + 128);
}

// Factors of a block's scales. factor * byte is computed exactly as factor * (2^23 + byte) - factor * 2^23, in one step.
template <int vectors> struct alignas(16) Factors {
    float32x4_t factors[vectors];
    float base[4 * vectors];

    ANTIPHON_INLINE_MEMBER Factors(const std::uint8_t *source, float sign) {
        load_halves<vectors>(source, factors);
        for (int v = 0; v < vectors; ++v) {
            factors[v] *= sign;
            vst1q_f32(base + 4 * v, factors[v] * -kByteBase);
        }
    }

    ANTIPHON_INLINE_MEMBER void multiply(const std::uint8_t *bytes, float32x4_t *out) const {
        float32x4_t raised[vectors];
        raise_bytes<vectors>(bytes, 0, raised);
        for (int v = 0; v < vectors; ++v) out[v] = vfmaq_f32(reload(base + 4 * v), raised[v], factors[v]);
    }
};

// Loads quad q of four rows, from whose codes `zero` is not subtracted yet.
template <int type, int q> ANTIPHON_INLINE int8x16_t load_quad(const std::uint8_t *codes) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    if constexpr (form.bits == 8) return vreinterpretq_s8_u8(vld1q_u8(codes + 64 * q));
    const uint8x16_t nibbles = vld1q_u8(codes + 64 * (q % 4));
    uint8x16_t quad = q < 4 ? nibbles & 15 : nibbles >> 4;
    if constexpr (form.bits == 5) {
        const uint8x16_t high = vld1q_u8(codes + 256);
        quad = vbslq_u8(vdupq_n_u8(16), q < 4 ? high << (q < 4 ? 4 - q : 0) : high >> (q < 4 ? 0 : q - 4), quad);
    }
    if constexpr (form.bits == 6) {
        const uint8x16_t high = vld1q_u8(codes + 256 + 64 * (q / 4));
        constexpr int i = q % 4;
        quad = vbslq_u8(vdupq_n_u8(48), i < 2 ? high << (i < 2 ? 4 - 2 * i : 0) : high >> (i < 2 ? 0 : 2 * i - 4), quad);
    }
    return vreinterpretq_s8_u8(quad);
}

// Multiplies half of a group: load(q, v) returns quad q = 4 * half + 0..3 of the v-th four rows, for a lane of x.
template <int half, class Load, int tokens, int vectors>
ANTIPHON_INLINE void multiply_half(Load load, const std::int8_t *x, std::int64_t stride, int32x4_t (&sums)[tokens][vectors]) {
    int8x16_t values[tokens];
    for (int t = 0; t < tokens; ++t) values[t] = vld1q_s8(x + t * stride + 16 * half);
    const auto quad = [&](auto index) __attribute__((always_inline)) {
        constexpr int lane = decltype(index)::value;
        int8x16_t weights[vectors];
        for (int v = 0; v < vectors; ++v) weights[v] = load(std::integral_constant<int, 4 * half + lane>{}, v);
        for (int t = 0; t < tokens; ++t) {
            for (int v = 0; v < vectors; ++v) sums[t][v] = vdotq_laneq_s32(sums[t][v], weights[v], values[t], lane);
        }
    };
    quad(std::integral_constant<int, 0>{});
    quad(std::integral_constant<int, 1>{});
    quad(std::integral_constant<int, 2>{});
    quad(std::integral_constant<int, 3>{});
}

// Consecutive groups of a tile, beginning with a block.
struct Chunk {
    const std::uint8_t *blocks;
    std::int64_t first, groups;  // index of the first group in the row, number of groups

    ANTIPHON_INLINE_MEMBER int in_block(std::int64_t group) const {
        return int(groups - group < kBlockGroups ? groups - group : kBlockGroups);
    }
};

// Returns the totals that a chunk's products are added to: zeros for the first chunk.
ANTIPHON_INLINE float32x4_t begin_total(const Chunk &chunk, const float *totals) {
    return chunk.first ? vld1q_f32(totals) : vdupq_n_f32(0);
}

// Products of `vectors` times four rows of a tile with some tokens.
template <int type, int tokens, int vectors> struct FewRows {
    static constexpr PackedForm form = PackedFormOf<type>::form;
    static constexpr int kPasses = kPackedRows / (4 * vectors);
    static constexpr std::size_t kLines = (form.code_bytes() / 64 + kPasses) / kPasses;  // cache lines of a group, per pass
    static constexpr bool kTogether = form.minimum && !form.factors && tokens * vectors <= 4;
    using Sums = int32x4_t[tokens][vectors];

    // Starts the sums of half h of a group, or of the whole group, from minus `zero` times the sum of the tokens' codes.
    ANTIPHON_INLINE void begin(const TokenView &x, std::int64_t group, int h, Sums &sums) {
        for (int t = 0; t < tokens; ++t) {
            const std::int16_t *const half_sums = x.half_sums + (t * x.groups + group) * 2;
            const int taken = form.halves ? half_sums[h] : half_sums[0] + half_sums[1];
            for (int v = 0; v < vectors; ++v) {
                sums[t][v] = form.zero ? spread(kMagicBits - form.zero * taken) : reload(kMagicStart);
            }
        }
    }

    template <int half>
    ANTIPHON_INLINE void add_half(const std::uint8_t *codes, const TokenView &x, std::int64_t group, Sums &sums) {
        const auto load = [codes](auto q, int v) __attribute__((always_inline)) {
            return load_quad<type, decltype(q)::value>(codes + 16 * v);
        };
        multiply_half<half>(load, x.codes + group * kPackedGroup, x.stride, sums);
    }

    // Computes I of a group (see format.h); Q6_K uses floats, which are exact here.
    ANTIPHON_INLINE void multiply_group(const std::uint8_t *codes, const std::uint8_t *half_scales, const TokenView &x,
                                        std::int64_t group, float32x4_t (&exact)[tokens][vectors]) {
        Sums sums;
        begin(x, group, 0, sums);
        add_half<0>(codes, x, group, sums);
        if constexpr (form.halves) {
            float32x4_t scales[vectors];
            load_half_scales<vectors>(half_scales, scales);
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < vectors; ++v) exact[t][v] = to_float(sums[t][v]) * scales[v];
            }
            begin(x, group, 1, sums);
            add_half<1>(codes, x, group, sums);
            load_half_scales<vectors>(half_scales + 16, scales);
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < vectors; ++v) exact[t][v] = vfmaq_f32(exact[t][v], to_float(sums[t][v]), scales[v]);
            }
        } else {
            add_half<1>(codes, x, group, sums);
            for (int t = 0; t < tokens; ++t) {
                for (int v = 0; v < vectors; ++v) exact[t][v] = to_float(sums[t][v]);
            }
        }
    }

    // Adds float(I) * (W * X) to the totals [tokens][16] and, if registers suffice, M * offset to the minima, for rows from
    // `row` on.
    ANTIPHON_INLINE void add_scaled(const Chunk &chunk, int row, const TokenView &x, float *totals, float *minima) {
        float32x4_t total[tokens][vectors], lowest[tokens][vectors];
        for (int t = 0; t < tokens; ++t) {
            for (int v = 0; v < vectors; ++v) {
                total[t][v] = begin_total(chunk, totals + t * kPackedRows + row + 4 * v);
                if constexpr (kTogether) lowest[t][v] = begin_total(chunk, minima + t * kPackedRows + row + 4 * v);
            }
        }
        const std::uint8_t *block = chunk.blocks;
        // A single pass prefetches bytes kAheadBytes ahead. Each of several passes prefetches its part of the next chunk, so
        // that memory slows all passes alike.
        const std::size_t chunk_bytes = form.tile_bytes(chunk.groups);
        const std::uint8_t *ahead = kPasses == 1 ? block + kAheadBytes
                                                 : block + chunk_bytes + (row / (4 * vectors)) * (chunk_bytes / kPasses);
        for (std::int64_t first = 0; first < chunk.groups; first += kBlockGroups) {
            const int count = chunk.in_block(first);
            const std::uint8_t *codes = block + form.head_bytes(count) + 4 * row;
            const Factors<vectors> factors(block + 2 * row, 1);
            for (int g = 0; g < count; ++g) {
                for (std::size_t i = 0; i < kLines; ++i) __builtin_prefetch(ahead + 64 * i);
                ahead += form.block_bytes(kBlockGroups) / kBlockGroups / kPasses;
                const std::int64_t group = chunk.first + first + g;
                float32x4_t exact[tokens][vectors], scale[vectors];
                multiply_group(codes, block + 32 + 32 * g + row, x, group, exact);
                codes += form.code_bytes();
                if constexpr (form.halves) {
                    for (int v = 0; v < vectors; ++v) scale[v] = factors.factors[v];
                } else if constexpr (form.factors) {
                    factors.multiply(block + 64 + 16 * g + row, scale);
                } else {
                    load_halves<vectors>(block + 32 * g + 2 * row, scale);
                }
                for (int t = 0; t < tokens; ++t) {
                    const float x_scale = x.scales[t * x.groups + group];
                    for (int v = 0; v < vectors; ++v) {
                        total[t][v] = vfmaq_f32(total[t][v], exact[t][v], vmulq_n_f32(scale[v], x_scale));
                    }
                }
                if constexpr (kTogether) {
                    load_halves<vectors>(block + 32 * (count + g) + 2 * row, scale);
                    for (int t = 0; t < tokens; ++t) {
                        const float offset = x.offsets[t * x.groups + group];
                        for (int v = 0; v < vectors; ++v) lowest[t][v] = vfmaq_n_f32(lowest[t][v], scale[v], offset);
                    }
                }
            }
            block += form.block_bytes(count);
        }
        for (int t = 0; t < tokens; ++t) {
            for (int v = 0; v < vectors; ++v) {
                vst1q_f32(totals + t * kPackedRows + row + 4 * v, total[t][v]);
                if constexpr (kTogether) vst1q_f32(minima + t * kPackedRows + row + 4 * v, lowest[t][v]);
            }
        }
    }
};

// Adds M * offset to the minima [tokens][16].
template <int type, int tokens>
ANTIPHON_INLINE void add_minima(const Chunk &chunk, const TokenView &x, float *minima) {
    constexpr PackedForm form = PackedFormOf<type>::form;
    float32x4_t total[tokens][4];
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < 4; ++v) total[t][v] = begin_total(chunk, minima + t * kPackedRows + 4 * v);
    }
    const std::uint8_t *block = chunk.blocks;
    for (std::int64_t first = 0; first < chunk.groups; first += kBlockGroups) {
        const int count = chunk.in_block(first);
        const Factors<4> factors(block + 32, -1);
        for (int g = 0; g < count; ++g) {
            float32x4_t minimum[4];
            if constexpr (form.factors) {
                factors.multiply(block + 192 + 16 * g, minimum);
            } else {
                load_halves<4>(block + 32 * (count + g), minimum);
            }
            for (int t = 0; t < tokens; ++t) {
                const float offset = x.offsets[t * x.groups + chunk.first + first + g];
                for (int v = 0; v < 4; ++v) total[t][v] = vfmaq_n_f32(total[t][v], minimum[v], offset);
            }
        }
        block += form.block_bytes(count);
    }
    for (int t = 0; t < tokens; ++t) {
        for (int v = 0; v < 4; ++v) vst1q_f32(minima + t * kPackedRows + 4 * v, total[t][v]);
    }
}

// Computes the totals and the minima [tokens][16] of a tile and some tokens.
template <int type, int tokens>
void multiply_few(const std::uint8_t *tile, const TokenView &x, float *totals, float *minima) {
    constexpr int vectors = tokens == 1 ? 4 : 2;
    using Rows = FewRows<type, tokens, vectors>;
    for (std::int64_t first = 0; first < x.groups; first += kChunkGroups) {
        const Chunk chunk{tile, first, x.groups - first < kChunkGroups ? x.groups - first : kChunkGroups};
        for (int row = 0; row < kPackedRows; row += 4 * vectors) Rows::add_scaled(chunk, row, x, totals, minima);
        if constexpr (Rows::form.minimum && !Rows::kTogether) add_minima<type, tokens>(chunk, x, minima);
        tile += Rows::form.tile_bytes(chunk.groups);
    }
}

}  // namespace
}  // namespace antiphon
