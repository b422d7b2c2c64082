// Packed form of quantised weights, and definition of their product with int8 activations.
//
// LAYOUT. Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K have one form, for matrices whose number of columns is a multiple
// of 32. A matrix is tiles of 16 rows, end to end; missing rows of the last tile are zeros, scales included. A tile is blocks
// of 8 groups of 32 columns; the last block may have fewer groups. A block is a header and the codes of its groups. Headers
// and codes begin at multiples of 64 bytes, and a tile is read in one direction.
//
//   header, n = groups of the block        bytes
//     of Q4_0, Q5_0, Q8_0:                 scale  fp16 [n][16]
//     of Q4_1, Q5_1:                       scale  fp16 [n][16], minimum fp16 [n][16]
//     of Q4_K, Q5_K (n is 8):              factor fp16 [16], minimum's factor fp16 [16], scale u8 [8][16], minimum u8 [8][16]
//     of Q6_K (n is 8):                    factor fp16 [16], scale i8 [8][2][16]: one for each half of a group
//     then zeros up to a multiple of 64
//   codes of one group; a quad is four consecutive columns of it, quads [8] of [16 rows][4 columns] being 64 bytes each
//     8 bits: quad q at 64 q, signed
//     4 bits: at 64 q, quad q in the low and quad q + 4 in the high nibbles, for q in 0..3: 256 bytes
//     5 bits: the low four as above, then 64 bytes of fifth bits: bit q of byte [row][column] belongs to quad q
//     6 bits: the low four as above, then twice 64 bytes of upper bits: bits 2i, 2i + 1 of byte [row][column] of half h
//             belong to quad 4h + i
//   Codes of 4, 5 and 6 bits are unsigned; `zero` is subtracted from them.
//
// ACTIVATIONS. A row of x is quantised by groups of 32: scale X = a / 127 for the largest magnitude a of the group, codes
// round(x * (127 / a)), to the nearest with ties to even. A group with a < 2^-100 has scale 0 and codes 0; a group with an
// infinity or NaN has scale NaN and codes 0.
//
// MEANING. Every variant computes the same bits, for any number of tokens and threads. For one token and one row, over
// the groups g in ascending order, from scaled = minima = 0:
//     I      = sum over the group of (code - zero) * x_code, exact in int32, for Q6_K with each half's sum times that
//              half's scale (|I| < 2^24: its conversion to fp32 is exact too)
//     W      = scale, or factor * scale for Q4_K and Q5_K, or factor for Q6_K
//     M      = minimum, or -(minimum's factor * minimum) for the K types
//     scaled = fma(float(I), W * X, scaled)
//     minima = fma(M, offset, minima), where offset = X * float(sum of the group's x_codes)
//     y      = scaled, or scaled + minima for types that have minima
// in which every product and sum is rounded to fp32.

#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon {

constexpr std::int64_t kPackedRows = 16;     // rows of a tile
constexpr std::int64_t kPackedGroup = 32;    // columns that share a scale
constexpr std::int64_t kBlockGroups = 8;     // groups of a block, which share a header
constexpr std::int64_t kPackedTokens = 16;   // kernels read activations, unused, up to a multiple of this

struct PackedForm {
    int bits, zero;
    bool minimum;  // Q4_1, Q5_1, Q4_K, Q5_K
    bool factors;  // the K types: scales are integers, with factors for 256 columns
    bool halves;   // Q6_K: a scale for each 16 columns

    constexpr std::size_t code_bytes() const { return std::size_t(bits) * kPackedRows * kPackedGroup / 8; }
    constexpr std::size_t head_bytes(std::int64_t groups) const {
        const std::size_t kinds = minimum ? 2 : 1, sets = std::size_t(groups);
        const std::size_t bytes = factors ? kinds * 32 + kinds * sets * (halves ? 32 : 16) : kinds * sets * 32;
        return (bytes + 63) / 64 * 64;
    }
    constexpr std::size_t block_bytes(std::int64_t groups) const { return head_bytes(groups) + groups * code_bytes(); }
    // Bytes of a tile whose rows have `groups` groups.
    constexpr std::size_t tile_bytes(std::int64_t groups) const {
        return groups / kBlockGroups * block_bytes(kBlockGroups) +
               (groups % kBlockGroups ? block_bytes(groups % kBlockGroups) : 0);
    }
};

// Packed form by GGUF type id.
template <int type> struct PackedFormOf;
template <> struct PackedFormOf<2> { static constexpr PackedForm form{4, 8, false, false, false}; };     // Q4_0
template <> struct PackedFormOf<3> { static constexpr PackedForm form{4, 0, true, false, false}; };      // Q4_1
template <> struct PackedFormOf<6> { static constexpr PackedForm form{5, 16, false, false, false}; };    // Q5_0
template <> struct PackedFormOf<7> { static constexpr PackedForm form{5, 0, true, false, false}; };      // Q5_1
template <> struct PackedFormOf<8> { static constexpr PackedForm form{8, 0, false, false, false}; };     // Q8_0
template <> struct PackedFormOf<12> { static constexpr PackedForm form{4, 0, true, true, false}; };      // Q4_K
template <> struct PackedFormOf<13> { static constexpr PackedForm form{5, 0, true, true, false}; };      // Q5_K
template <> struct PackedFormOf<14> { static constexpr PackedForm form{6, 32, false, true, true}; };     // Q6_K

// Returns the packed form of a GGUF type id, or null for a type without a packed form.
const PackedForm *packed_form(int type);

// Bytes of `rows` packed rows, a multiple of 64.
std::size_t packed_bytes(int type, std::int64_t rows, std::int64_t columns);

// Packs tiles [begin, end) of a matrix whose encoded rows lie `row_bytes` apart; `packed` is the matrix's first tile.
void pack_tiles(int type, const std::uint8_t *encoded, std::size_t row_bytes, std::int64_t rows, std::int64_t columns,
                std::int64_t begin, std::int64_t end, std::uint8_t *packed);

// Decodes a row of a packed matrix to the same floats as the encoded row.
void unpack_row(int type, const std::uint8_t *packed, std::int64_t columns, std::int64_t row, float *out);

// Quantised rows of x. All arrays begin at a multiple of 64, and all but `codes` have no gaps.
struct Activations {
    std::int64_t tokens, columns;
    std::int64_t stride;       // bytes from one token's codes to the next's: an odd multiple of 64, to avoid cache conflicts
    std::int8_t *codes;        // [tokens, columns], `stride` apart
    float *scales;             // [tokens, groups]
    float *offsets;            // [tokens, groups]: scale * float(sum of the codes)
    std::int16_t *half_sums;   // [tokens, groups, 2]: sums of the codes of a group's two halves

    std::int64_t groups() const { return columns / kPackedGroup; }
};

// Bytes of the arrays, and the arrays' layout in memory aligned to 64.
std::size_t activation_bytes(std::int64_t tokens, std::int64_t columns);
Activations place_activations(char *memory, std::int64_t tokens, std::int64_t columns);

// Product y[token * y_stride + row] for all tokens of x; `packed` is the matrix's first tile.
struct PackedProduct {
    int type;
    const std::uint8_t *packed;
    Activations x;
    float *y;
    std::int64_t y_stride;
};

// Kernels of an instruction set for packed weights: one table per variant.
struct PackedKernels {
    // Quantises tokens [begin, end) of x, `x_stride` floats apart.
    void (*quantize)(const float *x, std::int64_t x_stride, std::int64_t begin, std::int64_t end, const Activations &);
    // Computes rows [begin, end) of the product; best split at multiples of kPackedRows. `scratch` has
    // `scratch_bytes(tokens, columns)` bytes, aligned to 64.
    void (*multiply)(const PackedProduct &, std::int64_t begin, std::int64_t end, void *scratch);
    std::size_t (*scratch_bytes)(std::int64_t tokens, std::int64_t columns);
};

}  // namespace antiphon
