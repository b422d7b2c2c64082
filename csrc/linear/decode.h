// Decoding of GGUF's blocks to floats: one struct per type, with the block's size and a decoder of 32 consecutive elements.
//
// `group` passes the elements to a sink in ascending order, eight at a time, so that sinks that store them and sinks that
// multiply them see the same values in the same order.

#pragma once

#include "base/vector.h"

namespace {

constexpr int kGroup = 32;

ANTIPHON_INLINE std::uint16_t load_u16(const std::uint8_t *source) {
    return std::uint16_t(source[0] | source[1] << 8);
}
ANTIPHON_INLINE std::uint32_t load_u32(const std::uint8_t *source) {
    return load_u16(source) | std::uint32_t(load_u16(source + 2)) << 16;
}

// Returns lanes of all ones where `bits` has the lane's bit, lowest bit first.
ANTIPHON_INLINE Bytes8 lane_mask(std::uint8_t bits) {
    const Bytes8 lane_bits = {1, 2, 4, 8, 16, 32, 64, 128};
    return (Bytes8)((splat_bytes(bits) & lane_bits) == lane_bits);
}

ANTIPHON_INLINE Bytes8 high_bits(std::uint8_t bits, std::uint8_t value) { return lane_mask(bits) & splat_bytes(value); }

// Passes eight elements code * scale + offset to the sink.
template <class Sink> ANTIPHON_INLINE void emit(Bytes8 codes, float scale, float offset, Sink &sink) {
    sink(multiply_add(to_floats(codes), splat(scale), splat(offset)));
}

struct F32 {
    static constexpr int kBlock = kGroup, kBytes = 128;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        for (int i = 0; i < 4; ++i) {
            float lanes[kLanes];
            std::memcpy(lanes, block + 32 * i, sizeof lanes);
            sink(load(lanes));
        }
    }
};

struct F16 {
    static constexpr int kBlock = kGroup, kBytes = 64;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        for (int i = 0; i < 4; ++i) sink(load_halves(block + 16 * i));
    }
};

struct BF16 {
    static constexpr int kBlock = kGroup, kBytes = 64;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        for (int i = 0; i < 4; ++i) sink(load_brain_floats(block + 16 * i));
    }
};

// Decodes sixteen bytes of nibbles, low nibbles first.
template <class Sink>
ANTIPHON_INLINE void nibble_group(const std::uint8_t *codes, float scale, float offset, Sink &sink) {
    for (int i = 0; i < 4; ++i) {
        const Bytes8 packed = load_bytes(codes + 8 * (i & 1));
        emit(i < 2 ? packed & 0x0F : packed >> 4, scale, offset, sink);
    }
}

struct Q4_0 {
    static constexpr int kBlock = 32, kBytes = 18;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        const float scale = half_to_float(block);
        nibble_group(block + 2, scale, -8 * scale, sink);
    }
};

struct Q4_1 {
    static constexpr int kBlock = 32, kBytes = 20;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        nibble_group(block + 4, half_to_float(block), half_to_float(block + 2), sink);
    }
};

// Decodes nibbles with a fifth bit per element, stored in four separate bytes.
template <class Sink>
ANTIPHON_INLINE void five_bit_group(
    const std::uint8_t *codes, const std::uint8_t *high, float scale, float offset, Sink &sink) {
    for (int i = 0; i < 4; ++i) {
        const Bytes8 low = load_bytes(codes + 8 * (i & 1));
        emit((i < 2 ? low & 0x0F : low >> 4) | high_bits(high[i], 16), scale, offset, sink);
    }
}

struct Q5_0 {
    static constexpr int kBlock = 32, kBytes = 22;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        const float scale = half_to_float(block);
        five_bit_group(block + 6, block + 2, scale, -16 * scale, sink);
    }
};

struct Q5_1 {
    static constexpr int kBlock = 32, kBytes = 24;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        five_bit_group(block + 8, block + 4, half_to_float(block), half_to_float(block + 2), sink);
    }
};

struct Q8_0 {
    static constexpr int kBlock = 32, kBytes = 34;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        const Floats scale = splat(half_to_float(block));
        for (int i = 0; i < 4; ++i) sink(to_floats((Int8x8)load_bytes(block + 2 + 8 * i)) * scale);
    }
};

struct Q2_K {
    static constexpr int kBlock = 256, kBytes = 84;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *, Sink &sink) {
        const float scale = half_to_float(block + 80), minimum = half_to_float(block + 82);
        const std::uint8_t *codes = block + 16 + 32 * (g / 4);
        for (int i = 0; i < 4; ++i) {
            const std::uint8_t packed = block[2 * g + i / 2];
            emit(load_bytes(codes + 8 * i) >> (2 * (g % 4)) & 3, scale * (packed & 15), -(minimum * (packed >> 4)), sink);
        }
    }
};

struct Q3_K {
    static constexpr int kBlock = 256, kBytes = 110;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *, Sink &sink) {
        const std::uint8_t *codes = block + 32 + 32 * (g / 4), *packed = block + 96;
        const float factor = half_to_float(block + 108);
        for (int i = 0; i < 4; ++i) {
            const int index = 2 * g + i / 2;
            const int low = index < 8 ? packed[index] & 15 : packed[index - 8] >> 4;
            const int high = packed[8 + index % 4] >> (2 * (index / 4)) & 3;
            const float scale = factor * float((low | high << 4) - 32);
            const Bytes8 third = (load_bytes(block + 8 * i) >> g & 1) << 2;
            emit((load_bytes(codes + 8 * i) >> (2 * (g % 4)) & 3) | third, scale, -4 * scale, sink);
        }
    }
};

// 6-bit scale and minimum of 32 elements in Q4_K and Q5_K, times the block's factors; `offset` is the negated minimum.
struct ScaleAndOffset {
    float scale, offset;
};
ANTIPHON_INLINE ScaleAndOffset six_bit_pair(const std::uint8_t *block, int g) {
    const std::uint8_t *packed = block + 4;
    int scale, minimum;
    if (g < 4) {
        scale = packed[g] & 63;
        minimum = packed[g + 4] & 63;
    } else {
        scale = (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
        minimum = packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    }
    return {half_to_float(block) * float(scale), -(half_to_float(block + 2) * float(minimum))};
}

struct Q4_K {
    static constexpr int kBlock = 256, kBytes = 144;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *, Sink &sink) {
        const ScaleAndOffset pair = six_bit_pair(block, g);
        const std::uint8_t *codes = block + 16 + 32 * (g / 2);
        for (int i = 0; i < 4; ++i) emit(load_bytes(codes + 8 * i) >> (4 * (g & 1)) & 15, pair.scale, pair.offset, sink);
    }
};

struct Q5_K {
    static constexpr int kBlock = 256, kBytes = 176;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *, Sink &sink) {
        const ScaleAndOffset pair = six_bit_pair(block, g);
        const std::uint8_t *codes = block + 48 + 32 * (g / 2);
        for (int i = 0; i < 4; ++i) {
            const Bytes8 fifth = (load_bytes(block + 16 + 8 * i) >> g & 1) << 4;
            emit((load_bytes(codes + 8 * i) >> (4 * (g & 1)) & 15) | fifth, pair.scale, pair.offset, sink);
        }
    }
};

struct Q6_K {
    static constexpr int kBlock = 256, kBytes = 210;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *, Sink &sink) {
        const int half = g / 4, quarter = g % 4;
        const std::uint8_t *low = block + 64 * half + 32 * (quarter & 1), *high = block + 128 + 32 * half;
        const float factor = half_to_float(block + 208);
        for (int i = 0; i < 4; ++i) {
            const float scale = factor * float(std::int8_t(block[192 + 2 * g + i / 2]));
            const Bytes8 nibble = load_bytes(low + 8 * i) >> (4 * (quarter >> 1)) & 15;
            const Bytes8 upper = (load_bytes(high + 8 * i) >> (2 * quarter) & 3) << 4;
            emit(nibble | upper, scale, -32 * scale, sink);
        }
    }
};

// Values of the sixteen codes of IQ4_NL and IQ4_XS.
alignas(16) constexpr std::int8_t kFourBitValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};

ANTIPHON_INLINE Int8x8 four_bit_values(Bytes8 codes) {
#if defined(__aarch64__)
    return (Int8x8)vqtbl1_s8(vld1q_s8(kFourBitValues), (uint8x8_t)codes);
#elif defined(__AVX2__)
    const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i *>(kFourBitValues));
    Int8x8 values;
    _mm_storel_epi64(reinterpret_cast<__m128i *>(&values), _mm_shuffle_epi8(table, low_lanes(&codes)));
    return values;
#else
    Int8x8 values;
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = kFourBitValues[codes[lane]];
    return values;
#endif
}

template <class Sink> ANTIPHON_INLINE void table_group(const std::uint8_t *codes, float scale, Sink &sink) {
    for (int i = 0; i < 4; ++i) {
        const Bytes8 packed = load_bytes(codes + 8 * (i & 1));
        sink(to_floats(four_bit_values(i < 2 ? packed & 0x0F : packed >> 4)) * splat(scale));
    }
}

struct IQ4_NL {
    static constexpr int kBlock = 32, kBytes = 18;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int, const std::uint8_t *, Sink &sink) {
        table_group(block + 2, half_to_float(block), sink);
    }
};

struct IQ4_XS {
    static constexpr int kBlock = 256, kBytes = 136;
    template <class Sink> ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *, Sink &sink) {
        const int low = block[4 + g / 2] >> (4 * (g & 1)) & 15, high = load_u16(block + 2) >> (2 * g) & 3;
        table_group(block + 8 + 16 * g, half_to_float(block) * float((low | high << 4) - 32), sink);
    }
};

// Returns seven sign bits and an eighth, which makes the number of set bits even.
ANTIPHON_INLINE std::uint8_t with_parity(std::uint32_t code) {
    code &= 0x7F;
    return std::uint8_t(code | std::uint32_t(__builtin_parity(code)) << 7);
}

// Passes eight codebook values to the sink, negated where `signs` has the lane's bit.
template <class Sink> ANTIPHON_INLINE void emit_signed(Bytes8 values, std::uint8_t signs, float scale, Sink &sink) {
    const Bytes8 mask = lane_mask(signs);
    sink(to_floats((Int8x8)((values ^ mask) - mask)) * splat(scale));
}

ANTIPHON_INLINE Bytes8 two_rows_of_four(const std::uint8_t *grid, int first, int second) {
    Bytes8 values;
    std::memcpy(&values, grid + 4 * first, 4);
    std::memcpy(reinterpret_cast<std::uint8_t *>(&values) + 4, grid + 4 * second, 4);
    return values;
}

struct IQ2_XXS {
    static constexpr int kBlock = 256, kBytes = 66;
    template <class Sink>
    ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *grid, Sink &sink) {
        const std::uint8_t *rows = block + 2 + 8 * g;
        const std::uint32_t control = load_u32(rows + 4);
        const float scale = half_to_float(block) * (0.5f + float(control >> 28)) * 0.25f;
        for (int i = 0; i < 4; ++i) {
            emit_signed(load_bytes(grid + 8 * rows[i]), with_parity(control >> (7 * i)), scale, sink);
        }
    }
};

struct IQ2_XS {
    static constexpr int kBlock = 256, kBytes = 74;
    template <class Sink>
    ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *grid, Sink &sink) {
        for (int i = 0; i < 4; ++i) {
            const std::uint16_t code = load_u16(block + 2 + 8 * g + 2 * i);
            const float scale = half_to_float(block) * (0.5f + float(block[66 + g] >> (4 * (i / 2)) & 15)) * 0.25f;
            emit_signed(load_bytes(grid + 8 * (code & 0x1FF)), with_parity(code >> 9), scale, sink);
        }
    }
};

struct IQ2_S {
    static constexpr int kBlock = 256, kBytes = 82;
    template <class Sink>
    ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *grid, Sink &sink) {
        for (int i = 0; i < 4; ++i) {
            const int row = block[2 + 4 * g + i] | (block[66 + g] >> (2 * i) & 3) << 8;
            const float scale = half_to_float(block) * (0.5f + float(block[74 + g] >> (4 * (i / 2)) & 15)) * 0.25f;
            emit_signed(load_bytes(grid + 8 * row), block[34 + 4 * g + i], scale, sink);
        }
    }
};

struct IQ3_XXS {
    static constexpr int kBlock = 256, kBytes = 98;
    template <class Sink>
    ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *grid, Sink &sink) {
        const std::uint8_t *rows = block + 2 + 8 * g;
        const std::uint32_t control = load_u32(block + 66 + 4 * g);
        const float scale = half_to_float(block) * (0.5f + float(control >> 28)) * 0.5f;
        for (int i = 0; i < 4; ++i) {
            const Bytes8 values = two_rows_of_four(grid, rows[2 * i], rows[2 * i + 1]);
            emit_signed(values, with_parity(control >> (7 * i)), scale, sink);
        }
    }
};

struct IQ3_S {
    static constexpr int kBlock = 256, kBytes = 110;
    template <class Sink>
    ANTIPHON_INLINE void group(const std::uint8_t *block, int g, const std::uint8_t *grid, Sink &sink) {
        const std::uint8_t *rows = block + 2 + 8 * g;
        const int ninth = block[66 + g];
        const float scale = half_to_float(block) * float(1 + 2 * (block[106 + g / 2] >> (4 * (g & 1)) & 15));
        for (int i = 0; i < 4; ++i) {
            const int first = rows[2 * i] | (ninth >> (2 * i) & 1) << 8;
            const int second = rows[2 * i + 1] | (ninth >> (2 * i + 1) & 1) << 8;
            emit_signed(two_rows_of_four(grid, first, second), block[74 + 4 * g + i], scale, sink);
        }
    }
};

}  // namespace
