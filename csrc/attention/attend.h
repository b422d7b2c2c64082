// Attention cut into tiles and split over threads, and writing to pages, for Python and recorded programs.

#pragma once

#include <cstdint>

#include "attention/kernels.h"
#include "base/variant.h"

namespace antiphon {

// [tokens, heads, head_dim] floats, with contiguous channels.
struct HeadRows {
    const float *data;
    std::int64_t token_stride, head_stride;
};

// Cache slots and block tables of a step's tokens and requests in one cache group.
struct GroupTables {
    const std::int64_t *slots;
    std::int64_t num_slots;
    const std::int32_t *block_tables;
    std::int64_t table_stride, table_blocks;
    const std::int32_t *seq_lens, *query_start;
    std::int64_t requests;
};

// Visibility of keys to queries, and changes of scores.
struct Masking {
    float scale;
    bool causal;
    std::int64_t window, sink_tokens;
    const float *sinks;
    float softcap;
    const float *bias;
    std::int64_t bias_head_stride, bias_query_stride;
};

// Pages of one layer. The arena must outlive this.
class Pages {
public:
    Pages(std::uint8_t *arena, std::int64_t kv_heads, std::int64_t block_tokens, std::int64_t head_dim,
          Element key_element, Element value_element, std::int64_t key_offset, std::int64_t value_offset,
          std::int64_t key_scale_offset, std::int64_t value_scale_offset, const float *key_balance);

    // Stores one token's keys and values, unless the slot is negative.
    void store_token(const float *k, std::int64_t k_head_stride, const float *v, std::int64_t v_head_stride,
                     std::int64_t slot, const Variant &variant) const;
    void store(const HeadRows &k, const HeadRows &v, const std::int64_t *slots, std::int64_t tokens, int threads,
               const Variant &variant) const;
    // Throws `std::invalid_argument` if a request's lengths do not fit the tokens or the tables.
    void attend(const HeadRows &q, std::int64_t tokens, std::int64_t heads, const GroupTables &group,
                const Masking &masking, float *out, int threads, const Variant &variant) const;

    std::int64_t kv_heads() const { return kv_heads_; }
    std::int64_t head_dim() const { return head_dim_; }

private:
    Region keys_, values_;
    std::int64_t kv_heads_, block_tokens_, head_dim_;
};

// Attention without pages over sequences laid end to end.
void attend_sequences(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                      std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences,
                      const Masking &masking, float *out, int threads, const Variant &variant);

}  // namespace antiphon
