// Attention for many rows: keys and values are decoded once to a tile of floats that all rows use.
//
// Compiled once per instruction set, so everything here has internal linkage.

#pragma once

#include <cstring>

#include "attention/few_rows.h"
#include "attention/kernels.h"
#include "base/vector.h"

namespace antiphon {
namespace {

constexpr std::int64_t kScoreStride = kPartition + 8;
#if defined(__AVX512VL__)
constexpr int kMicroRows = 4;
#else
constexpr int kMicroRows = 2;
#endif

// Parts of a tile's scratch.
struct Workspace {
    std::int64_t rows, width, partial;
    float *q, *scores, *sums, *running, *decoded;
    Workspace(const Attention &a, const AttentionTile &tile, float *scratch)
        : rows(tile.num_queries * tile.heads(a)), width(padded_head(a.head_dim)), partial(partial_floats(a.head_dim)) {
        q = scratch;
        scores = q + rows * width;
        sums = scores + rows * kScoreStride;
        running = sums + rows * partial;
        decoded = running + rows * partial;
    }
};

struct Matrix {
    const float *data;
    std::int64_t stride;
};

void decode_row(Element element, const std::uint8_t *source, const std::uint8_t *scales, std::int64_t head_dim, float *out) {
    const std::int64_t whole = head_dim / kLanes * kLanes;
    std::int64_t i = 0;
    if (element == Element::i8) {  // head_dim is a multiple of kScaleChannels
        for (; i < whole; i += kLanes) {
            const Floats scale = splat(half_to_float(scales + i / kScaleChannels * 2));
            store(out + i, to_floats((Int8x8)load_bytes(source + i)) * scale);
        }
        return;
    }
    if (whole < head_dim) store(out + whole, zeros());
    if (element == Element::f16) {
        for (; i < whole; i += kLanes) store(out + i, load_halves(source + 2 * i));
        for (; i < head_dim; ++i) out[i] = half_to_float(source + 2 * i);
    } else if (element == Element::bf16) {
        for (; i < whole; i += kLanes) store(out + i, load_brain_floats(source + 2 * i));
        for (; i < head_dim; ++i) out[i] = bits_to_float(std::uint32_t(source[2 * i] | source[2 * i + 1] << 8) << 16);
    } else {
        std::memcpy(out, source, head_dim * sizeof(float));
    }
}

// Address of a token of a head; the next tokens of its block follow it.
StoredTokens stored_tokens(const Region &region, const Attention &a, const AttentionTile &tile, std::int64_t kv_head,
                           std::int64_t begin) {
    const std::int64_t block = begin / a.block_tokens, token = begin % a.block_tokens;
    std::int64_t offset, scale_offset = 0;
    if (tile.block_table) {
        offset = tile.block_table[block] * kOffsetUnit + token * region.token_stride;
        scale_offset = tile.block_table[block] * kOffsetUnit + token * region.scale_token_stride;
    } else {
        offset = (tile.first_key + begin) * region.token_stride;
    }
    return {region.base + offset + kv_head * region.head_stride,
            region.scale_base + scale_offset + kv_head * region.scale_head_stride, region.token_stride,
            region.scale_token_stride};
}

// Returns tokens [begin, begin + count) of one block as floats, rows padded with zeros to full vectors. Rows that lie far
// apart are copied: each would need its own TLB entry on every access.
Matrix read_tokens(const Region &region, const Attention &a, const AttentionTile &tile, std::int64_t begin,
                   std::int64_t count, float *decoded) {
    const StoredTokens stored = stored_tokens(region, a, tile, tile.kv_head, begin);
    if (region.element == Element::f32 && a.head_dim % kLanes == 0 && tile.block_table) {
        return {reinterpret_cast<const float *>(stored.data), a.head_dim};
    }
    const std::int64_t width = padded_head(a.head_dim);
    for (std::int64_t i = 0; i < count; ++i) {
        decode_row(region.element, stored.data + i * stored.stride, stored.scales + i * stored.scale_stride, a.head_dim,
                   decoded + i * width);
    }
    return {decoded, width};
}

// Multiplies four keys with `rows` queries. A product is the sum of eight lanes that run over the channels in order.
template <int rows>
ANTIPHON_INLINE void multiply_four(const float *q, std::int64_t width, const float *const (&keys)[4], float *scores) {
    Floats totals[rows][4];
    for (int r = 0; r < rows; ++r) {
        for (int k = 0; k < 4; ++k) totals[r][k] = zeros();
    }
    for (std::int64_t i = 0; i < width; i += kLanes) {
        Floats key[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) key[k] = load(keys[k] + i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            const Floats query = load(q + r * width + i);
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) totals[r][k] = multiply_add(query, key[k], totals[r][k]);
        }
    }
    for (int r = 0; r < rows; ++r) {
        const Float4 products = sums(totals[r][0], totals[r][1], totals[r][2], totals[r][3]);
        std::memcpy(scores + r * kScoreStride, &products, sizeof products);
    }
}

// Computes the scores of `count` keys for all rows; overwrites up to three elements after them.
void multiply_keys(const Workspace &w, Matrix keys, std::int64_t count, float *scores) {
    for (std::int64_t k = 0; k < count; k += 4) {
        const float *four[4];
        for (int i = 0; i < 4; ++i) four[i] = keys.data + (k + i < count ? k + i : count - 1) * keys.stride;
        std::int64_t row = 0;
        for (; row + kMicroRows <= w.rows; row += kMicroRows) {
            multiply_four<kMicroRows>(w.q + row * w.width, w.width, four, scores + row * kScoreStride + k);
        }
        const float *const rest = w.q + row * w.width;
        float *const rest_scores = scores + row * kScoreStride + k;
        switch (w.rows - row) {
        case 3: multiply_four<3>(rest, w.width, four, rest_scores); break;
        case 2: multiply_four<2>(rest, w.width, four, rest_scores); break;
        case 1: multiply_four<1>(rest, w.width, four, rest_scores); break;
        default: break;
        }
    }
}

// sums[row] += weights[row] · values, key by key in ascending order, for `rows` rows and `vectors` vectors of channels.
template <int rows, int vectors>
ANTIPHON_INLINE void add_values(const float *values, std::int64_t stride, std::int64_t count, const float *weights,
                                float *sums, std::int64_t sums_stride) {
    Floats local[rows][vectors];
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) local[r][v] = load(sums + r * sums_stride + v * kLanes);
    }
    for (std::int64_t k = 0; k < count; ++k) {
        Floats value[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) value[v] = load(values + k * stride + v * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            const Floats weight = splat(weights[r * kScoreStride + k]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) local[r][v] = multiply_add(weight, value[v], local[r][v]);
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) store(sums + r * sums_stride + v * kLanes, local[r][v]);
    }
}

template <int rows>
void add_rows(Matrix values, std::int64_t width, std::int64_t count, const float *weights, float *sums,
              std::int64_t sums_stride) {
    constexpr int vectors = rows == 1 ? 8 : rows == 2 ? 4 : 2;
    if (count <= 0) return;
    std::int64_t i = 0;
    for (; i + vectors * kLanes <= width; i += vectors * kLanes) {
        add_values<rows, vectors>(values.data + i, values.stride, count, weights, sums + i, sums_stride);
    }
    for (; i < width; i += kLanes) add_values<rows, 1>(values.data + i, values.stride, count, weights, sums + i, sums_stride);
}

}  // namespace
}  // namespace antiphon
