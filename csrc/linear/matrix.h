// Matrix of rows in one or more encodings, as stored in files or packed. Its creator must keep the memory alive.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace antiphon {

// Consecutive rows of one encoding.
struct MatrixPart {
    int type;  // GGUF type id
    bool packed;
    const std::uint8_t *data;
    std::size_t row_bytes;  // bytes of an encoded row; 0 if packed
    std::int64_t first, rows;
    const std::uint8_t *codebook;  // codebook of an encoded IQ type, else null
};

struct Matrix {
    std::int64_t columns, rows = 0;
    std::vector<MatrixPart> parts;

    void append(int type, bool packed, const std::uint8_t *data, std::size_t row_bytes, std::int64_t part_rows,
                const std::uint8_t *codebook) {
        parts.push_back({type, packed, data, row_bytes, rows, part_rows, codebook});
        rows += part_rows;
    }
    bool any_packed() const {
        for (const MatrixPart &part : parts) {
            if (part.packed) return true;
        }
        return false;
    }
    bool any_encoded() const {
        for (const MatrixPart &part : parts) {
            if (!part.packed) return true;
        }
        return false;
    }
};

}  // namespace antiphon
