// Products with weights in the encodings of files, decoded to floats as they are multiplied.

#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon {

// y[tokens, rows] = x[tokens, columns] · Wᵀ, for a matrix W whose rows are `row_bytes` of encoded blocks.
struct Product {
    const std::uint8_t *weight;
    std::size_t row_bytes;
    std::int64_t columns;
    const std::uint8_t *codebook;  // codebook of an IQ type, else null
    const float *x;                // columns padded with zeros to a multiple of kPadding
    std::int64_t x_stride;
    std::int64_t tokens;
    float *y;
    std::int64_t y_stride;
};

constexpr std::int64_t kPadding = 32;

// Rows that are decoded together; work is best split at multiples of this.
constexpr std::int64_t kTileRows = 16;

// Maximum tokens whose totals are kept while a tile is multiplied; more tokens are multiplied block by block.
constexpr std::int64_t kTokenBlock = 96;

struct TypeKernels {
    // Computes rows [begin, end) of the product. `scratch` has `scratch_bytes(tokens)` bytes, aligned to 64.
    void (*multiply)(const Product &, std::int64_t begin, std::int64_t end, void *scratch);
    void (*decode_row)(const std::uint8_t *row, std::int64_t columns, const std::uint8_t *codebook, float *out);
};

// Bytes of a decoded tile of 16 rows of 256 floats, and of eight lanes of totals per token and row of the tile.
inline std::size_t scratch_bytes(std::int64_t tokens) {
    return (kTileRows * 256 + std::size_t(tokens < kTokenBlock ? tokens : kTokenBlock) * kTileRows * 8) * sizeof(float);
}

}  // namespace antiphon
