// What a set of kernels compiled for one instruction set offers, and which sets this processor can run.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/kernels.h"
#include "base/limits.h"
#include "encoder_attention/int8_kernels.h"
#include "linear/row_scaled.h"
#include "packed/format.h"
#include "rows/kernels.h"
#include "sampling/kernels.h"
#include "sound/kernels.h"

namespace antiphon {

// y[tokens, rows] = x[tokens, columns] · Wᵀ, for a matrix W whose rows are `row_bytes` of encoded blocks.
struct Product {
    const std::uint8_t *weight;
    std::size_t row_bytes;
    std::int64_t columns;
    const std::uint8_t *codebook;  // of the IQ types, else null
    const float *x;                // columns padded with zeros to a multiple of kPadding
    std::int64_t x_stride;
    std::int64_t tokens;
    float *y;
    std::int64_t y_stride;
};

constexpr std::int64_t kPadding = 32;

// Rows that are decoded together; splitting work at multiples of it wastes nothing.
constexpr std::int64_t kTileRows = 16;

// Tokens whose totals are kept together while a tile is multiplied; more are taken in turns.
constexpr std::int64_t kTokenBlock = 96;

struct TypeKernels {
    // Rows [begin, end) of the product. `scratch` has `scratch_bytes(tokens)` bytes, aligned to 64.
    void (*multiply)(const Product &, std::int64_t begin, std::int64_t end, void *scratch);
    void (*decode_row)(const std::uint8_t *row, std::int64_t columns, const std::uint8_t *codebook, float *out);
};

struct Variant {
    const char *name;
    // The kernels of a GGUF type id, or null for a type that has none.
    const TypeKernels *(*find)(int type);
    const AttentionKernels *attention;
    RowKernels rows;
    FrameKernels frames;
    const SamplingKernels *sampling;
    const LimitKernels *limits;
    const PackedKernels *packed;
    const HalfKernels *half;  // null where this processor does not compute in a 16-bit type
    const ScaledKernels *scaled;  // null where it multiplies int8 no faster than otherwise
    const Int8AttentionKernels *int8_attention;  // null where packed products serve as well
};

std::size_t scratch_bytes(std::int64_t tokens);

// The variants that this processor can run, the best first; never empty.
const std::vector<Variant> &variants();

}  // namespace antiphon
