// Quantised matrix product. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.
//
// A result is the sum of eight lane accumulators that run over the columns in ascending order for any number of tokens and
// threads, so a token's result does not depend on the rest of the batch.

#include "linear/kernels.h"

#include "linear/decode.h"

namespace antiphon {
namespace {

constexpr int kChunkGroups = 8;  // groups of columns that are decoded at a time
constexpr int kChunk = kChunkGroups * kGroup;
constexpr int kMicroRows = 4;
#if defined(__AVX512VL__)
constexpr int kMicroTokens = 4;
#else
constexpr int kMicroTokens = 2;
#endif

struct Store {
    float *target;
    ANTIPHON_INLINE_MEMBER void operator()(Floats values) {
        store(target, values);
        target += kLanes;
    }
};

struct Dot {
    Floats total;
    const float *x;
    ANTIPHON_INLINE_MEMBER void operator()(Floats values) {
        total = multiply_add(values, load(x), total);
        x += kLanes;
    }
};

// Decodes group `g` of a row. Rows of plain floats may end inside a group; missing columns read as zero.
template <class Type, class Sink>
ANTIPHON_INLINE void row_group(const std::uint8_t *row, std::int64_t g, const std::uint8_t *codebook, Sink &sink) {
    constexpr int groups_per_block = Type::kBlock / kGroup;
    Type::group(row + g / groups_per_block * Type::kBytes, int(g % groups_per_block), codebook, sink);
}

template <class Type, class Sink>
ANTIPHON_INLINE void row_tail(const std::uint8_t *row, std::int64_t columns, const std::uint8_t *codebook, Sink &sink) {
    std::uint8_t padded[Type::kBytes] = {};
    const std::int64_t whole = columns / kGroup;
    std::memcpy(padded, row + whole * Type::kBytes, columns % kGroup * (Type::kBytes / Type::kBlock));
    Type::group(padded, 0, codebook, sink);
}

template <class Type>
void decode_row(const std::uint8_t *row, std::int64_t columns, const std::uint8_t *codebook, float *out) {
    const std::int64_t whole = columns / kGroup;
    Store sink{out};
    for (std::int64_t g = 0; g < whole; ++g) row_group<Type>(row, g, codebook, sink);
    if (columns % kGroup) {
        float tail[kGroup];
        Store tail_sink{tail};
        row_tail<Type>(row, columns, codebook, tail_sink);
        std::memcpy(out + whole * kGroup, tail, columns % kGroup * sizeof(float));
    }
}

// Multiplies one token: each weight is decoded in registers and used there.
template <class Type, int rows> void multiply_one(const Product &p, std::int64_t begin) {
    const std::uint8_t *row = p.weight + begin * p.row_bytes;
    const std::int64_t whole = p.columns / kGroup;
    Floats totals[rows];
    for (int r = 0; r < rows; ++r) totals[r] = zeros();
    for (std::int64_t g = 0; g < whole; ++g) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            Dot sink{totals[r], p.x + g * kGroup};
            row_group<Type>(row + r * p.row_bytes, g, p.codebook, sink);
            totals[r] = sink.total;
        }
    }
    if (p.columns % kGroup) {
        for (int r = 0; r < rows; ++r) {
            Dot sink{totals[r], p.x + whole * kGroup};
            row_tail<Type>(row + r * p.row_bytes, p.columns, p.codebook, sink);
            totals[r] = sink.total;
        }
    }
    for (int r = 0; r < rows; ++r) p.y[begin + r] = sum(totals[r]);
}

// totals[token][row] += x[token] · weights[row], over one decoded chunk.
template <int tokens>
ANTIPHON_INLINE void micro(const float *weights, const float *x, std::int64_t x_stride, int length, Floats *totals) {
    Floats local[tokens][kMicroRows];
    for (int t = 0; t < tokens; ++t) {
        for (int r = 0; r < kMicroRows; ++r) local[t][r] = totals[t * kTileRows + r];
    }
    for (int k = 0; k < length; k += kLanes) {
        Floats w[kMicroRows];
#pragma GCC unroll 4
        for (int r = 0; r < kMicroRows; ++r) w[r] = load(weights + r * kChunk + k);
#pragma GCC unroll 4
        for (int t = 0; t < tokens; ++t) {
            const Floats values = load(x + t * x_stride + k);
#pragma GCC unroll 4
            for (int r = 0; r < kMicroRows; ++r) local[t][r] = multiply_add(w[r], values, local[t][r]);
        }
    }
    for (int t = 0; t < tokens; ++t) {
        for (int r = 0; r < kMicroRows; ++r) totals[t * kTileRows + r] = local[t][r];
    }
}

void multiply_chunk(const float *weights, const float *x, std::int64_t x_stride, std::int64_t tokens, int length,
                    int rows, Floats *totals) {
    std::int64_t t = 0;
    for (; t + kMicroTokens <= tokens; t += kMicroTokens) {
        for (int r = 0; r < rows; r += kMicroRows) {
            micro<kMicroTokens>(weights + r * kChunk, x + t * x_stride, x_stride, length, totals + t * kTileRows + r);
        }
    }
    for (; t < tokens; ++t) {
        for (int r = 0; r < rows; r += kMicroRows) {
            micro<1>(weights + r * kChunk, x + t * x_stride, x_stride, length, totals + t * kTileRows + r);
        }
    }
}

// Multiplies several tokens: a tile of rows is decoded once, a chunk of columns at a time, and multiplied with all tokens.
template <class Type> void multiply_tile(const Product &p, std::int64_t begin, int rows, void *scratch) {
    float *weights = static_cast<float *>(scratch);
    Floats *totals = reinterpret_cast<Floats *>(weights + kTileRows * kChunk);
    const int padded_rows = (rows + kMicroRows - 1) / kMicroRows * kMicroRows;
    if (padded_rows > rows) std::memset(weights + rows * kChunk, 0, (padded_rows - rows) * kChunk * sizeof(float));
    std::memset(static_cast<void *>(totals), 0, p.tokens * kTileRows * sizeof(Floats));

    const std::int64_t whole = p.columns / kGroup, groups = (p.columns + kGroup - 1) / kGroup;
    for (std::int64_t first = 0; first < groups; first += kChunkGroups) {
        const std::int64_t last = first + kChunkGroups < groups ? first + kChunkGroups : groups;
        for (int r = 0; r < rows; ++r) {
            const std::uint8_t *row = p.weight + (begin + r) * p.row_bytes;
            Store sink{weights + r * kChunk};
            for (std::int64_t g = first; g < last && g < whole; ++g) row_group<Type>(row, g, p.codebook, sink);
            if (last > whole) row_tail<Type>(row, p.columns, p.codebook, sink);
        }
        multiply_chunk(weights, p.x + first * kGroup, p.x_stride, p.tokens, int(last - first) * kGroup, padded_rows, totals);
    }
    for (std::int64_t t = 0; t < p.tokens; ++t) {
        for (int r = 0; r < rows; ++r) p.y[t * p.y_stride + begin + r] = sum(totals[t * kTileRows + r]);
    }
}

template <class Type> void multiply(const Product &p, std::int64_t begin, std::int64_t end, void *scratch) {
    if (p.tokens > 1) {
        Product part = p;
        for (std::int64_t token = 0; token < p.tokens; token += kTokenBlock) {
            part.x = p.x + token * p.x_stride;
            part.y = p.y + token * p.y_stride;
            part.tokens = p.tokens - token < kTokenBlock ? p.tokens - token : kTokenBlock;
            for (std::int64_t row = begin; row < end; row += kTileRows) {
                multiply_tile<Type>(part, row, int(end - row < kTileRows ? end - row : kTileRows), scratch);
            }
        }
        return;
    }
    std::int64_t row = begin;
    for (; row + kMicroRows <= end; row += kMicroRows) multiply_one<Type, kMicroRows>(p, row);
    for (; row < end; ++row) multiply_one<Type, 1>(p, row);
}

template <class Type> const TypeKernels *kernels_of() {
    static constexpr TypeKernels kernels = {multiply<Type>, decode_row<Type>};
    return &kernels;
}

}  // namespace

namespace ANTIPHON_VARIANT {

const TypeKernels *find(int type) {
    switch (type) {
    case 0: return kernels_of<F32>();
    case 1: return kernels_of<F16>();
    case 2: return kernels_of<Q4_0>();
    case 3: return kernels_of<Q4_1>();
    case 6: return kernels_of<Q5_0>();
    case 7: return kernels_of<Q5_1>();
    case 8: return kernels_of<Q8_0>();
    case 10: return kernels_of<Q2_K>();
    case 11: return kernels_of<Q3_K>();
    case 12: return kernels_of<Q4_K>();
    case 13: return kernels_of<Q5_K>();
    case 14: return kernels_of<Q6_K>();
    case 16: return kernels_of<IQ2_XXS>();
    case 17: return kernels_of<IQ2_XS>();
    case 18: return kernels_of<IQ3_XXS>();
    case 20: return kernels_of<IQ4_NL>();
    case 21: return kernels_of<IQ3_S>();
    case 22: return kernels_of<IQ2_S>();
    case 23: return kernels_of<IQ4_XS>();
    case 30: return kernels_of<BF16>();
    default: return nullptr;
    }
}

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
