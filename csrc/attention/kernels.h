// Attention over cached pages or plain rows, and writing to pages.
//
// The order of additions for a query depends on its position alone: keys are taken in partitions of kPartition positions,
// counted from the sequence's start. A partition has a maximum, a total and a weighted sum of values, computed key by key in
// ascending order; partitions are then joined in ascending order. So other requests, chunks and threads change no bit.

#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon {

constexpr std::int64_t kPartition = 256;
constexpr std::int64_t kOffsetUnit = 256;  // bytes in the unit of block table entries
constexpr int kScaleChannels = 32;         // channels that share a scale in int8 pages

enum class Element : int { f32, f16, bf16, i8 };

// Keys or values: address(block) + head * head_stride + token * token_stride, all in bytes.
struct Region {
    Element element;
    std::uint8_t *base;
    std::int64_t head_stride, token_stride;
    std::uint8_t *scale_base;  // scales of int8 elements
    std::int64_t scale_head_stride, scale_token_stride;
    const float *balance = nullptr;  // [kv heads, head_dim]: divisors of stored int8 keys, or null
};

struct Attention {
    Region keys, values;
    std::int64_t block_tokens;  // a power of two
    std::int64_t head_dim, heads_per_kv_head;
    const float *q;
    std::int64_t q_token_stride, q_head_stride;
    float *out;  // [tokens, heads, head_dim]
    std::int64_t out_token_stride;
    float scale;
    bool causal;
    std::int64_t window;       // 0: none
    std::int64_t sink_tokens;  // with a window: first tokens that stay visible
    const float *sinks;        // one logit per head, or null
    float softcap;             // 0: none
    const float *bias;         // [heads, positions, positions], or null
    std::int64_t bias_head_stride, bias_query_stride;
};

constexpr std::int64_t kFewHeads = 8;  // maximum heads per kv head for `reads_once`

// Whether keys and values are converted in registers (few_rows.h), not to a copy (many_rows.h).
static inline bool reads_once(const Attention &a, std::int64_t num_queries) {
    return num_queries == 1 && a.heads_per_kv_head <= kFewHeads && a.head_dim % 8 == 0;
}

// Consecutive queries of one request with all heads of one kv head; if `reads_once`, one query with the heads of several
// kv heads, which are contiguous in a block. A query has `heads` rows.
struct AttentionTile {
    const std::int32_t *block_table;  // null: plain rows, from row `first_key` on
    std::int64_t first_key;
    std::int64_t length;  // keys of the sequence
    std::int64_t first_query, num_queries;
    std::int64_t position;  // position of the first query
    std::int64_t kv_head, kv_heads;

    std::int64_t heads(const Attention &a) const { return kv_heads * a.heads_per_kv_head; }
    std::int64_t query_of(const Attention &a, std::int64_t row) const { return row / heads(a); }
    std::int64_t head_of(const Attention &a, std::int64_t row) const { return kv_head * a.heads_per_kv_head + row % heads(a); }
};

struct AttentionKernels {
    // Computes a whole tile.
    void (*attend)(const Attention &, const AttentionTile &, float *scratch);
    // Computes one partition of a tile; `partial` has `partial_floats` for each row. `join` then combines all partitions
    // that the tile sees, `stride` floats apart. The result equals that of `attend`.
    void (*attend_partition)(const Attention &, const AttentionTile &, std::int64_t partition, float *scratch, float *partial);
    void (*join)(const Attention &, const AttentionTile &, const float *partials, float *scratch, std::int64_t stride);
    // Stores a row of k or v, `head_dim` floats, to its slot in a block.
    void (*store)(const Region &, std::int64_t head_dim, std::int64_t block_offset, std::int64_t head, std::int64_t token,
                  const float *row);
};

constexpr std::int64_t kKeyTile = 64;

static inline std::int64_t padded_head(std::int64_t head_dim) { return (head_dim + 7) / 8 * 8; }

// Floats of a row's partial result: its maximum and total, padded to eight, then its weighted sum of values.
static inline std::int64_t partial_floats(std::int64_t head_dim) { return 8 + padded_head(head_dim); }

static inline std::int64_t attention_scratch_floats(std::int64_t rows, std::int64_t head_dim) {
    return rows * (padded_head(head_dim) + kPartition + 8 + 2 * partial_floats(head_dim)) + kKeyTile * padded_head(head_dim);
}

// Positions that a tile's queries can see: [0, sink_end) and [begin, end).
struct Visible {
    std::int64_t sink_end, begin, end;
};
static inline Visible visible_to(const Attention &a, const AttentionTile &tile, std::int64_t first, std::int64_t last) {
    Visible seen{0, 0, a.causal ? tile.position + last + 1 : tile.length};
    if (a.window) {
        seen.sink_end = a.sink_tokens < seen.end ? a.sink_tokens : seen.end;
        const std::int64_t begin = tile.position + first - a.window + 1;
        seen.begin = begin > seen.sink_end ? begin : seen.sink_end;
        if (seen.begin > seen.end) seen.begin = seen.end;
    }
    return seen;
}
static inline Visible visible_to(const Attention &a, const AttentionTile &tile) { return visible_to(a, tile, 0, tile.num_queries - 1); }

static inline bool sees_partition(const Visible &seen, std::int64_t partition) {
    const std::int64_t begin = partition * kPartition, end = begin + kPartition;
    return begin < seen.sink_end || (begin < seen.end && end > seen.begin);
}

}  // namespace antiphon
