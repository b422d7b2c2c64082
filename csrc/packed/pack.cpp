// Conversion of encoded rows to the packed form and back. Codes are moved four at a time: a quad is one 32-bit word in both.

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/vector.h"
#include "packed/format.h"

namespace antiphon {
namespace {

constexpr std::uint32_t kNibbles = 0x0F0F0F0Fu, kPairs = 0x03030303u, kBits = 0x01010101u;

ANTIPHON_INLINE std::uint32_t load_word(const std::uint8_t *source) {
    std::uint32_t word;
    std::memcpy(&word, source, sizeof word);
    return word;
}
ANTIPHON_INLINE void store_word(std::uint8_t *target, std::uint32_t word) { std::memcpy(target, &word, sizeof word); }

// Returns four bits, lowest first, as the lowest bits of four bytes.
ANTIPHON_INLINE std::uint32_t spread_bits(std::uint32_t bits) { return ((bits & 15) * 0x00204081u) & kBits; }

// Encoded form: bytes of a block of `kColumns`, the quads of its g-th group, and the offsets of its scales.
template <int type> struct Encoded;

template <int bits, bool minimum> struct Legacy {
    static constexpr int kColumns = 32, kHead = (minimum ? 4 : 2) + (bits == 5 ? 4 : 0);
    static constexpr int kBytes = kHead + (bits == 8 ? 32 : 16);

    static void quads(const std::uint8_t *block, int, std::uint32_t *out) {
        const std::uint8_t *codes = block + kHead;
        for (int q = 0; q < 8; ++q) {
            out[q] = bits == 8 ? load_word(codes + 4 * q) : load_word(codes + 4 * (q % 4)) >> (q / 4 * 4) & kNibbles;
            if (bits == 5) out[q] |= spread_bits(load_word(codes - 4) >> (4 * q)) << 4;
        }
    }
};
template <> struct Encoded<2> : Legacy<4, false> {};
template <> struct Encoded<3> : Legacy<4, true> {};
template <> struct Encoded<6> : Legacy<5, false> {};
template <> struct Encoded<7> : Legacy<5, true> {};
template <> struct Encoded<8> : Legacy<8, false> {};

template <int bits> struct SuperBlock {
    static constexpr int kColumns = 256, kHigh = bits == 5 ? 32 : 0, kBytes = 16 + kHigh + 128;

    static void quads(const std::uint8_t *block, int g, std::uint32_t *out) {
        const std::uint8_t *codes = block + 16 + kHigh + 32 * (g / 2);
        for (int q = 0; q < 8; ++q) {
            out[q] = load_word(codes + 4 * q) >> (g % 2 * 4) & kNibbles;
            if (bits == 5) out[q] |= (load_word(block + 16 + 4 * q) >> g & kBits) << 4;
        }
    }
    static std::uint8_t scale(const std::uint8_t *block, int g) {
        const std::uint8_t *packed = block + 4;
        return g < 4 ? packed[g] & 63 : (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
    }
    static std::uint8_t minimum(const std::uint8_t *block, int g) {
        const std::uint8_t *packed = block + 4;
        return g < 4 ? packed[g + 4] & 63 : packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    }
};
template <> struct Encoded<12> : SuperBlock<4> {};
template <> struct Encoded<13> : SuperBlock<5> {};

template <> struct Encoded<14> {
    static constexpr int kColumns = 256, kBytes = 210;

    static void quads(const std::uint8_t *block, int g, std::uint32_t *out) {
        const std::uint8_t *low = block + 64 * (g / 4) + 32 * (g % 2), *high = block + 128 + 32 * (g / 4);
        for (int q = 0; q < 8; ++q) {
            out[q] = (load_word(low + 4 * q) >> (g % 4 / 2 * 4) & kNibbles) |
                     (load_word(high + 4 * q) >> (g % 4 * 2) & kPairs) << 4;
        }
    }
};

template <int type> struct Packed {
    static constexpr PackedForm form = PackedFormOf<type>::form;
    using Source = Encoded<type>;

    static void write_head(const std::uint8_t *blocks, int groups, int row, std::uint8_t *head) {
        if constexpr (!form.factors) {
            for (int g = 0; g < groups; ++g) {
                const std::uint8_t *block = blocks + g * Source::kBytes;
                std::memcpy(head + 32 * g + 2 * row, block, 2);
                if (form.minimum) std::memcpy(head + 32 * (groups + g) + 2 * row, block + 2, 2);
            }
        } else if constexpr (form.halves) {
            std::memcpy(head + 2 * row, blocks + 208, 2);
            for (int i = 0; i < 16; ++i) head[32 + 16 * i + row] = blocks[192 + i];
        } else {
            std::memcpy(head + 2 * row, blocks, 2);
            std::memcpy(head + 32 + 2 * row, blocks + 2, 2);
            for (int g = 0; g < 8; ++g) {
                head[64 + 16 * g + row] = Source::scale(blocks, g);
                head[192 + 16 * g + row] = Source::minimum(blocks, g);
            }
        }
    }

    static void write_codes(const std::uint32_t *quads, int row, std::uint8_t *codes) {
        std::uint8_t *const target = codes + 4 * row;
        if constexpr (form.bits == 8) {
            for (int q = 0; q < 8; ++q) store_word(target + 64 * q, quads[q]);
        } else {
            std::uint32_t high[2] = {0, 0};
            for (int q = 0; q < 4; ++q) {
                store_word(target + 64 * q, (quads[q] & kNibbles) | (quads[q + 4] & kNibbles) << 4);
            }
            for (int q = 0; q < 8; ++q) {
                if (form.bits == 5) high[0] |= (quads[q] >> 4 & kBits) << q;
                if (form.bits == 6) high[q / 4] |= (quads[q] >> 4 & kPairs) << (q % 4 * 2);
            }
            for (int plane = 0; plane < form.bits - 4; ++plane) store_word(target + 256 + 64 * plane, high[plane]);
        }
    }

    static std::uint32_t read_quad(const std::uint8_t *codes, int row, int q) {
        const std::uint8_t *const source = codes + 4 * row;
        if (form.bits == 8) return load_word(source + 64 * q);
        std::uint32_t quad = load_word(source + 64 * (q % 4)) >> (q / 4 * 4) & kNibbles;
        if (form.bits == 5) quad |= (load_word(source + 256) >> q & kBits) << 4;
        if (form.bits == 6) quad |= (load_word(source + 256 + 64 * (q / 4)) >> (q % 4 * 2) & kPairs) << 4;
        return quad;
    }

    // Packs a tile whose first row is `encoded`; only `rows` of its rows exist, the others stay zero.
    static void pack_tile(const std::uint8_t *encoded, std::size_t row_bytes, int rows, std::int64_t columns,
                          std::uint8_t *tile) {
        constexpr int per_block = Source::kColumns / kPackedGroup;
        const std::int64_t groups = columns / kPackedGroup;
        for (std::int64_t first = 0; first < groups; first += kBlockGroups) {
            const int count = int(groups - first < kBlockGroups ? groups - first : kBlockGroups);
            std::memset(tile, 0, rows < kPackedRows ? form.block_bytes(count) : form.head_bytes(count));
            std::uint8_t *const codes = tile + form.head_bytes(count);
            for (int row = 0; row < rows; ++row) {
                const std::uint8_t *const source = encoded + row * row_bytes + first / per_block * Source::kBytes;
                write_head(source, count, row, tile);
                for (int g = 0; g < count; ++g) {
                    std::uint32_t quads[8];
                    Source::quads(source + g / per_block * Source::kBytes, g % per_block, quads);
                    write_codes(quads, row, codes + g * form.code_bytes());
                }
            }
            tile += form.block_bytes(count);
        }
    }

    static void unpack(const std::uint8_t *tile, std::int64_t columns, int row, float *out) {
        const std::int64_t groups = columns / kPackedGroup;
        for (std::int64_t first = 0; first < groups; first += kBlockGroups) {
            const int count = int(groups - first < kBlockGroups ? groups - first : kBlockGroups);
            for (int g = 0; g < count; ++g) {
                const std::uint8_t *const codes = tile + form.head_bytes(count) + g * form.code_bytes();
                for (int q = 0; q < 8; ++q) {
                    std::uint8_t lanes[4];
                    store_word(lanes, read_quad(codes, row, q));
                    float scale = half_to_float(tile + 2 * row), offset = 0;
                    if (form.halves) {
                        scale *= float(std::int8_t(tile[32 + 32 * g + q / 4 * 16 + row]));
                    } else if (form.factors) {
                        scale *= float(tile[64 + 16 * g + row]);
                        offset = -(half_to_float(tile + 32 + 2 * row) * float(tile[192 + 16 * g + row]));
                    } else {
                        scale = half_to_float(tile + 32 * g + 2 * row);
                        if (form.minimum) offset = half_to_float(tile + 32 * (count + g) + 2 * row);
                    }
                    if (form.zero) offset = -form.zero * scale;
                    for (int c = 0; c < 4; ++c) {
                        const float code = form.bits == 8 ? float(std::int8_t(lanes[c])) : float(lanes[c]);
                        *out++ = std::fma(code, scale, offset);
                    }
                }
            }
            tile += form.block_bytes(count);
        }
    }
};

// Calls f with Packed<type>{}.
template <class F> void with_type(int type, F f) {
    switch (type) {
    case 2: return f(Packed<2>{});
    case 3: return f(Packed<3>{});
    case 6: return f(Packed<6>{});
    case 7: return f(Packed<7>{});
    case 8: return f(Packed<8>{});
    case 12: return f(Packed<12>{});
    case 13: return f(Packed<13>{});
    case 14: return f(Packed<14>{});
    default: throw std::invalid_argument("tensor type " + std::to_string(type) + " has no packed form");
    }
}

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

const PackedForm *packed_form(int type) {
    switch (type) {
    case 2: return &PackedFormOf<2>::form;
    case 3: return &PackedFormOf<3>::form;
    case 6: return &PackedFormOf<6>::form;
    case 7: return &PackedFormOf<7>::form;
    case 8: return &PackedFormOf<8>::form;
    case 12: return &PackedFormOf<12>::form;
    case 13: return &PackedFormOf<13>::form;
    case 14: return &PackedFormOf<14>::form;
    default: return nullptr;
    }
}

std::size_t packed_bytes(int type, std::int64_t rows, std::int64_t columns) {
    const PackedForm *form = packed_form(type);
    if (!form) throw std::invalid_argument("tensor type " + std::to_string(type) + " has no packed form");
    return std::size_t((rows + kPackedRows - 1) / kPackedRows) * form->tile_bytes(columns / kPackedGroup);
}

void pack_tiles(int type, const std::uint8_t *encoded, std::size_t row_bytes, std::int64_t rows, std::int64_t columns,
                std::int64_t begin, std::int64_t end, std::uint8_t *packed) {
    with_type(type, [&](auto packer) {
        const std::size_t tile_bytes = packer.form.tile_bytes(columns / kPackedGroup);
        for (std::int64_t tile = begin; tile < end; ++tile) {
            const std::int64_t first = tile * kPackedRows, left = rows - first;
            packer.pack_tile(encoded + first * row_bytes, row_bytes, int(left < kPackedRows ? left : kPackedRows), columns,
                             packed + tile * tile_bytes);
        }
    });
}

void unpack_row(int type, const std::uint8_t *packed, std::int64_t columns, std::int64_t row, float *out) {
    with_type(type, [&](auto packer) {
        const std::size_t tile_bytes = packer.form.tile_bytes(columns / kPackedGroup);
        packer.unpack(packed + row / kPackedRows * tile_bytes, columns, int(row % kPackedRows), out);
    });
}

static std::int64_t code_stride(std::int64_t columns) { return ((columns + 63) / 64 | 1) * 64; }

std::size_t activation_bytes(std::int64_t tokens, std::int64_t columns) {
    const std::size_t rows = (tokens + kPackedTokens - 1) / kPackedTokens * kPackedTokens, groups = columns / kPackedGroup;
    return rows * code_stride(columns) + 3 * aligned(rows * groups * 4);
}

Activations place_activations(char *memory, std::int64_t tokens, std::int64_t columns) {
    const std::size_t rows = (tokens + kPackedTokens - 1) / kPackedTokens * kPackedTokens, groups = columns / kPackedGroup;
    const std::int64_t stride = code_stride(columns);
    char *const scales = memory + rows * stride, *const offsets = scales + aligned(rows * groups * 4);
    return {tokens,
            columns,
            stride,
            reinterpret_cast<std::int8_t *>(memory),
            reinterpret_cast<float *>(scales),
            reinterpret_cast<float *>(offsets),
            reinterpret_cast<std::int16_t *>(offsets + aligned(rows * groups * 4))};
}

}  // namespace antiphon
